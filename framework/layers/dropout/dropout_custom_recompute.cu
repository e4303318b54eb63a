// dropout custom_recompute: nothing is stored; both passes draw the same mask.
// Mapping:  thread = 4 elements = 1 Philox block (16-byte accesses); nhwc: thread = 1 element,
// which
//           draws a block of its own, because the neighbours in memory belong to other blocks.
// Traffic:  forward x once, y once; backward dy once, dx once.
// Limits:   fp32, any size and layout.
#include "device/check.h"
#include "layers/dropout/dropout_impls.h"

namespace duet {
namespace {

constexpr int kThreads = 256;

__global__ void dropout_recompute_kernel(DropoutMask mask, float scale, const uint64_t* step,
                                         int64_t count, const float* from, float* to) {
  const int64_t block = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t first = block * 4;
  if (first >= count) return;
  const unsigned kept = mask.kept4(*step, block);
  if (first + 4 <= count) {
    float4 v = reinterpret_cast<const float4*>(from)[block];
    v.x = kept & 1 ? v.x * scale : 0.0f;
    v.y = kept & 2 ? v.y * scale : 0.0f;
    v.z = kept & 4 ? v.z * scale : 0.0f;
    v.w = kept & 8 ? v.w * scale : 0.0f;
    reinterpret_cast<float4*>(to)[block] = v;
  } else {
    for (int64_t i = first; i < count; ++i) {
      to[i] = kept >> (i - first) & 1 ? from[i] * scale : 0.0f;
    }
  }
}

__global__ void dropout_recompute_nhwc_kernel(DropoutMask mask, float scale, const uint64_t* step,
                                              int64_t count, const float* from, float* to) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) to[i] = mask.kept(*step, i) ? from[i] * scale : 0.0f;
}

class DropoutCustomRecompute : public DropoutImpl {
 public:
  using DropoutImpl::DropoutImpl;

  void forward(const Run& run, const Tensor& x, const Tensor& y, const Tensor&) override {
    apply(run, x, y);
  }
  void backward(const Run& run, const Tensor& dy, const Tensor&, const Tensor& dx) override {
    apply(run, dy, dx);
  }

 private:
  void apply(const Run& run, const Tensor& from, const Tensor& to) {
    if (!run.training) {
      DUET_CUDA(cudaMemcpyAsync(to.memory, from.memory, from.bytes(), cudaMemcpyDeviceToDevice,
                                run.stream()));
      return;
    }
    const int64_t count = from.elements();
    const int64_t threads = mask_.channels_last ? count : (count + 3) / 4;
    const auto kernel =
        mask_.channels_last ? dropout_recompute_nhwc_kernel : dropout_recompute_kernel;
    kernel<<<static_cast<unsigned>((threads + kThreads - 1) / kThreads), kThreads, 0,
             run.stream()>>>(mask_, scale_, run.step, count, from.data<float>(), to.data<float>());
    DUET_LAUNCHED();
  }
};

}  // namespace

ImplEntry<DropoutProblem> dropout_custom_recompute() {
  return {.id = "custom_recompute",
          .unsupported = supports_all,
          .make = make_implementation<DropoutCustomRecompute>,
          .shared = true};
}

}  // namespace duet
