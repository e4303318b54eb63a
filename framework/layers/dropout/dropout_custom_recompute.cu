// dropout custom_recompute: nothing is stored; both passes draw the same mask.
// Mapping:  thread = 4 elements = 1 Philox block (one access, of 16 bytes; 8 in bf16); nhwc:
//           thread = 1 element, which draws a block of its own, because the neighbours in memory
//           belong to other blocks.
// Traffic:  forward x once, y once; backward dy once, dx once.
// Limits:   fp32 or bf16, any size and layout.
#include "device/check.h"
#include "device/launch.h"
#include "kernels/vector.cuh"
#include "layers/dropout/dropout.h"

namespace duet {
namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void dropout_recompute_kernel(DropoutMask mask, float scale, const uint64_t* step,
                                         int64_t count, const T* from, T* to) {
  wait_for_primary();
  const int64_t block = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t first = block * 4;
  if (first >= count) return;
  const unsigned kept = mask.kept4(*step, block);
  if (first + 4 <= count) {
    auto values = load<4>(from + first);
#pragma unroll
    for (int k = 0; k < 4; ++k) values.v[k] = kept & 1u << k ? values.v[k] * scale : 0.0f;
    store(to + first, values);
  } else {
    for (int64_t i = first; i < count; ++i) {
      to[i] = T(kept >> (i - first) & 1 ? from[i] * scale : 0.0f);
    }
  }
}

template <class T>
__global__ void dropout_recompute_nhwc_kernel(DropoutMask mask, float scale, const uint64_t* step,
                                              int64_t count, const T* from, T* to) {
  wait_for_primary();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) to[i] = T(mask.kept(*step, i) ? from[i] * scale : 0.0f);
}

template <class T>
class DropoutCustomRecompute : public DropoutImpl {
 public:
  using DropoutImpl::DropoutImpl;

  void forward(const Run& run, const Tensor& x, const Tensor& y, const Tensor&) override {
    apply(run, x, y);
  }
  void backward(const Run& run, const Tensor&, const Tensor&, const Tensor& dy, const Tensor&,
                const Tensor& dx) override {
    apply(run, dy, dx);
  }

 private:
  void apply(const Run& run, const Tensor& from, const Tensor& to) {
    if (!run.training) return run.context.queue_copy(to.memory, from.memory, from.bytes());
    const int64_t count = from.elements();
    const int64_t threads = mask_.channels_last ? count : (count + 3) / 4;
    const auto kernel =
        mask_.channels_last ? dropout_recompute_nhwc_kernel<T> : dropout_recompute_kernel<T>;
    launch_following(
        {static_cast<unsigned>((threads + kThreads - 1) / kThreads), kThreads, 0, run.stream()},
        kernel, mask_, scale_, run.step, count, from.data<T>(), to.data<T>());
  }
};

}  // namespace

ImplEntry<DropoutProblem> dropout_custom_recompute() {
  auto entry = gpu_entry<DropoutCustomRecompute>("custom_recompute");
  entry.shared = true;
  return entry;
}

}  // namespace duet
