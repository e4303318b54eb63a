// batch_norm custom_two_pass: the definition in one launch a pass: a block has whole channels, sums
//           x, then the squares of what differs from the mean, and then writes y.
// Mapping:  block = 1 channel (NHWC, N x F: up to 128), 256 threads; 4 values a thread at a time
//           where H*W (C) is a multiple of 4. There are no more blocks than channels.
// Traffic:  forward x 3 times, the second and third time from a cache if the channel fits there, y
//           once; backward x and dy twice, dx once.
// Limits:   fp32 or bf16, both layouts, fewer than 2^31 values.
#include "device/launch.h"
#include "layers/batch_norm/batch_norm_kernels.cuh"

namespace duet {
namespace {

using namespace batch_norm;

template <class F>
__global__ void __launch_bounds__(kThreads)
    batch_norm_forward_two_pass_kernel(Walk walk, Forward<typename F::Value> t) {
  wait_for_primary();
  const auto plus = [](float a, float b) { return a + b; };
  float sums[F::kChannels] = {};
  for_each<F>(walk, [&](int offset) {
    const auto x = load<F::V>(t.x + offset);
#pragma unroll
    for (int k = 0; k < F::V; ++k) sums[F::channel_of(k)] += x.v[k];
  });
  Statistics<F> s;
#pragma unroll
  for (int k = 0; k < F::kChannels; ++k) {
    s.mean[k] = block_combine(sums[k], walk.lanes, plus) / walk.count;
  }

  float squares[F::kChannels] = {}, var[F::kChannels];
  // region variance
  for_each<F>(walk, [&](int offset) {
    const auto x = load<F::V>(t.x + offset);
#pragma unroll
    for (int k = 0; k < F::V; ++k) {
      const float difference = x.v[k] - s.mean[F::channel_of(k)];
      squares[F::channel_of(k)] += difference * difference;
    }
  });
  // end variance
#pragma unroll
  for (int k = 0; k < F::kChannels; ++k) {
    var[k] = block_combine(squares[k], walk.lanes, plus) / walk.count;
    s.inverse[k] = 1.0f / sqrtf(var[k] + walk.eps);
  }

  keep<F>(walk, t, s, var);
  normalise<F>(walk, t, [&] { return s; });
}

template <class F>
__global__ void __launch_bounds__(kThreads)
    batch_norm_backward_two_pass_kernel(Walk walk, Backward<typename F::Value> t) {
  wait_for_primary();
  const auto s = statistics_of_backward<F>(walk, t);
  Sums sums[F::kChannels];
  sum_gradients<F>(walk, t, s, sums);
#pragma unroll
  for (int k = 0; k < F::kChannels; ++k) sums[k] = block_combine(sums[k], walk.lanes, add);
  write_gradients<F>(walk, t, s, sums);
}

class BatchNormCustomTwoPass : public CustomImpl<BatchNormCustomTwoPass> {
 public:
  explicit BatchNormCustomTwoPass(const BatchNormProblem& problem)
      : CustomImpl(problem), walk_(walk_of(problem, false)) {}

  template <class F>
  void train(const Run& run, const Forward<typename F::Value>& t) const {
    launch(walk_, 1, run.stream(), batch_norm_forward_two_pass_kernel<F>, walk_, t);
  }
  template <class F>
  void gradients(const Run& run, const Backward<typename F::Value>& t) const {
    launch(walk_, 1, run.stream(), batch_norm_backward_two_pass_kernel<F>, walk_, t);
  }

 private:
  const Walk walk_;
};

}  // namespace

ImplEntry<BatchNormProblem> batch_norm_custom_two_pass() {
  return impl_entry<BatchNormCustomTwoPass>("custom_two_pass", batch_norm::unsupported,
                                            gpu_dtypes());
}

}  // namespace duet
