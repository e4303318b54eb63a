#include "device/check.h"
#include "support/double_kernels.h"

namespace duet {
namespace {

__global__ void rare_fault_kernel(uint64_t* calls, uint32_t* out) {
  if (++*calls % 1000 == 0) out[0] ^= 1;
}

__global__ void larger_kernel(float* value, const float* other) { *value = fmaxf(*value, *other); }

__global__ void delay_if_changed_kernel(const uint32_t* x, uint64_t count, uint32_t* kept) {
  bool changed = false;
  for (uint64_t i = 0; i < 4; ++i) {
    const uint32_t value = x[i * (count - 1) / 3];
    changed |= kept[i] != value;
    kept[i] = value;
  }
  if (!changed) return;
  for (int i = 0; i < 200; ++i) __nanosleep(1000);
}

}  // namespace

void queue_rare_fault(Context& context, uint64_t* calls, void* out) {
  rare_fault_kernel<<<1, 1, 0, context.stream()>>>(calls, static_cast<uint32_t*>(out));
  DUET_LAUNCHED();
}

void queue_larger(Context& context, float* value, const float* other) {
  larger_kernel<<<1, 1, 0, context.stream()>>>(value, other);
  DUET_LAUNCHED();
}

bool is_capturing(Context& context) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  DUET_CUDA(cudaStreamIsCapturing(context.stream(), &status));
  return status == cudaStreamCaptureStatusActive;
}

void queue_delay_if_changed(Context& context, const Tensor& x, void* kept) {
  delay_if_changed_kernel<<<1, 1, 0, context.stream()>>>(static_cast<const uint32_t*>(x.memory),
                                                         static_cast<uint64_t>(x.elements()),
                                                         static_cast<uint32_t*>(kept));
  DUET_LAUNCHED();
}

}  // namespace duet
