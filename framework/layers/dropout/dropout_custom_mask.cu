// dropout custom_mask: forward stores the mask, a bit an element; backward only reads it.
// Mapping:  thread = 8 elements in memory order = 1 byte of mask.
// Traffic:  forward x once, y once, mask written (1/32 of x); backward dy, mask once, dx once.
// Limits:   fp32, any size and layout; in nhwc forward draws a Philox block an element.
#include "device/check.h"
#include "layers/dropout/dropout_impls.h"

namespace duet {
namespace {

constexpr int kThreads = 256;
constexpr int kPerThread = 8;

// to[i] = from[i] * scale for the elements first .. first+7 whose bit is set, 0 for the others.
__device__ void apply8(unsigned kept, float scale, int64_t first, int64_t count, const float* from,
                       float* to) {
  if (first + kPerThread <= count) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float4 v = reinterpret_cast<const float4*>(from + first)[half];
      v.x = kept & 1 ? v.x * scale : 0.0f;
      v.y = kept & 2 ? v.y * scale : 0.0f;
      v.z = kept & 4 ? v.z * scale : 0.0f;
      v.w = kept & 8 ? v.w * scale : 0.0f;
      reinterpret_cast<float4*>(to + first)[half] = v;
      kept >>= 4;
    }
  } else {
    for (int64_t i = first; i < count; ++i) {
      to[i] = kept >> (i - first) & 1 ? from[i] * scale : 0.0f;
    }
  }
}

__global__ void dropout_forward_mask_kernel(DropoutMask mask, float scale, const uint64_t* step,
                                            int64_t count, const float* x, float* y,
                                            uint8_t* bits) {
  const int64_t byte = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t first = byte * kPerThread;
  if (first >= count) return;
  unsigned kept = 0;
  if (mask.channels_last) {
    for (int b = 0; b < kPerThread && first + b < count; ++b) {
      kept |= (mask.kept(*step, first + b) ? 1u : 0u) << b;
    }
  } else {
    kept = mask.kept4(*step, 2 * byte) | mask.kept4(*step, 2 * byte + 1) << 4;
  }
  bits[byte] = static_cast<uint8_t>(kept);
  apply8(kept, scale, first, count, x, y);
}

__global__ void dropout_backward_mask_kernel(float scale, int64_t count, const uint8_t* bits,
                                             const float* dy, float* dx) {
  const int64_t byte = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t first = byte * kPerThread;
  if (first < count) apply8(bits[byte], scale, first, count, dy, dx);
}

class DropoutCustomMask : public DropoutImpl {
 public:
  using DropoutImpl::DropoutImpl;

  size_t state_bytes() const override { return bytes(); }

  void forward(const Run& run, const Tensor& x, const Tensor& y, const Tensor& state) override {
    if (!run.training) return copy(run.context, x, y);
    dropout_forward_mask_kernel<<<blocks(), kThreads, 0, run.stream()>>>(
        mask_, scale_, run.step, x.elements(), x.data<float>(), y.data<float>(),
        state.data<uint8_t>());
    DUET_LAUNCHED();
  }

  void backward(const Run& run, const Tensor& dy, const Tensor& state, const Tensor& dx) override {
    if (!run.training) return copy(run.context, dy, dx);
    dropout_backward_mask_kernel<<<blocks(), kThreads, 0, run.stream()>>>(
        scale_, dy.elements(), state.data<uint8_t>(), dy.data<float>(), dx.data<float>());
    DUET_LAUNCHED();
  }

 private:
  static void copy(Context& context, const Tensor& from, const Tensor& to) {
    DUET_CUDA(cudaMemcpyAsync(to.memory, from.memory, from.bytes(), cudaMemcpyDeviceToDevice,
                              context.stream()));
  }
  size_t bytes() const { return (problem_.x.elements() + kPerThread - 1) / kPerThread; }
  unsigned blocks() const { return static_cast<unsigned>((bytes() + kThreads - 1) / kThreads); }
};

}  // namespace

ImplEntry<DropoutProblem> dropout_custom_mask() {
  return {"custom_mask", supports_all, make_implementation<DropoutCustomMask>};
}

}  // namespace duet
