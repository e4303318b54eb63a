// Copies beside the work of contexts' streams.
#include "device/gpu_copies.h"

#include <string>

#include "core/error.h"
#include "core/watchdog.h"
#include "device/check.h"

namespace duet::gpu {

void* allocate_pinned(size_t bytes) {
  void* memory = nullptr;
  const cudaError_t status = cudaHostAlloc(&memory, bytes, cudaHostAllocDefault);
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();  // or the next launch would be blamed
    throw OutOfMemoryError("out of memory: the host cannot set aside " +
                           std::to_string(bytes >> 20) +
                           " MiB for copies to the GPU; choose a smaller batch");
  }
  DUET_CUDA(status);
  return memory;
}

void release_pinned(void* memory) noexcept { cudaFreeHost(memory); }

CUstream_st* make_stream() {
  cudaStream_t stream = nullptr;
  DUET_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

void destroy_stream(CUstream_st* stream) noexcept {
  if (!stream) return;
  cudaStreamSynchronize(stream);
  cudaStreamDestroy(stream);
}

void queue_upload(void* to, const void* from, size_t bytes, CUstream_st* stream) {
  DUET_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream));
}

void queue_wait(void* event, CUstream_st* stream) {
  DUET_CUDA(cudaStreamWaitEvent(stream, static_cast<cudaEvent_t>(event), 0));
}

void wait_for(void* event) {
  const GpuWait wait;
  DUET_CUDA(cudaEventSynchronize(static_cast<cudaEvent_t>(event)));
}

void* make_sleeping_event() {
  cudaEvent_t event = nullptr;
  DUET_CUDA(cudaEventCreateWithFlags(&event, cudaEventBlockingSync | cudaEventDisableTiming));
  return event;
}

}  // namespace duet::gpu
