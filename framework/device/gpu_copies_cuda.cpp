// Copies beside the work of contexts' streams.
#include "device/gpu_copies.h"

#include <string>
#include <vector>

#include "core/error.h"
#include "core/watchdog.h"
#include "device/check.h"

namespace duet::gpu {
namespace {

#if CUDART_VERSION >= 13000
constexpr auto capture_info = cudaStreamGetCaptureInfo;
constexpr auto update_capture_dependencies = cudaStreamUpdateCaptureDependencies;
#else
constexpr auto capture_info = cudaStreamGetCaptureInfo_v3;
constexpr auto update_capture_dependencies = cudaStreamUpdateCaptureDependencies_v2;
#endif

}  // namespace

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

bool wait_alone(CUstream_st* other, CUstream_st* stream) {
  cudaStreamCaptureStatus status{};
  const cudaGraphNode_t* nodes = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  size_t count = 0;
  DUET_CUDA(cudaStreamIsCapturing(stream, &status));
  if (status != cudaStreamCaptureStatusActive) return false;
  DUET_CUDA(capture_info(other, &status, nullptr, nullptr, &nodes, &edges, &count));
  if (status != cudaStreamCaptureStatusActive) return false;
  std::vector<cudaGraphNode_t> all(nodes, nodes + count);
  DUET_CUDA(update_capture_dependencies(stream, all.data(), edges, count,
                                        cudaStreamSetCaptureDependencies));
  return true;
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
