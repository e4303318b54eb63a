// batch_norm custom_two_pass: the definition in one launch a pass: a block has whole channels, sums
//           x, then the squares of what differs from the mean, and then writes y.
// Mapping:  block = 1 channel (NHWC, N x F: up to 128), 256 threads; 4 values a thread at a time
//           where H*W (C) is a multiple of 4. There are no more blocks than channels.
// Traffic:  forward x 3 times, the second and third time from a cache if the channel fits there, y
//           once; backward x and dy twice, dx once.
// Limits:   fp32 or bf16, both layouts, fewer than 2^31 values.
#include "layers/batch_norm/batch_norm_kernels.cuh"

namespace duet {
namespace {

using namespace batch_norm;

template <class F>
__global__ void __launch_bounds__(kThreads)
    batch_norm_forward_two_pass_kernel(Walk walk, Forward<typename F::Value> t) {
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
  for_each<F>(walk, [&](int offset) {
    const auto x = load<F::V>(t.x + offset);
#pragma unroll
    for (int k = 0; k < F::V; ++k) {
      const float difference = x.v[k] - s.mean[F::channel_of(k)];
      squares[F::channel_of(k)] += difference * difference;
    }
  });
#pragma unroll
  for (int k = 0; k < F::kChannels; ++k) {
    var[k] = block_combine(squares[k], walk.lanes, plus) / walk.count;
    s.inverse[k] = 1.0f / sqrtf(var[k] + walk.eps);
  }

  keep<F>(walk, t, s, var);
  normalise<F>(walk, t, s);
}

template <class F>
__global__ void __launch_bounds__(kThreads)
    batch_norm_backward_two_pass_kernel(Walk walk, Backward<typename F::Value> t) {
  const auto s = statistics_of_backward<F>(walk, t);
  Sums sums[F::kChannels];
  sum_gradients<F>(walk, t, s, sums);
#pragma unroll
  for (int k = 0; k < F::kChannels; ++k) sums[k] = block_combine(sums[k], walk.lanes, add);
  write_gradients<F>(walk, t, s, sums);
}

class BatchNormCustomTwoPass : public BatchNormImpl {
 public:
  explicit BatchNormCustomTwoPass(const BatchNormProblem& problem)
      : BatchNormImpl(problem),
        walk_(walk_of(problem, false)),
        split_walk_(walk_of(problem, true)) {}

  size_t state_bytes() const override { return batch_norm::state_bytes(problem_); }
  std::string detail(Pass) const override { return form_text(problem_); }

  void forward(const Run& run, const Tensor& x, const BatchNormParameters& w, const Tensor& y,
               const Tensor& state) override {
    if (!run.training) {
      return launch_evaluation(problem_, split_walk_, run.stream(), x, w, y, state);
    }
    with_form(problem_, [&](auto form) {
      using F = decltype(form);
      launch(walk_, 1, run.stream(), batch_norm_forward_two_pass_kernel<F>, walk_,
             Forward<typename F::Value>(x, w, y, state));
    });
  }

  void backward(const Run& run, const Tensor& x, const BatchNormParameters& w, const Tensor& dy,
                const Tensor& state, const Tensor& dx, const BatchNormParameters& dw) override {
    with_form(problem_, [&](auto form) {
      using F = decltype(form);
      launch(walk_, 1, run.stream(), batch_norm_backward_two_pass_kernel<F>, walk_,
             Backward<typename F::Value>(run.training, x, w, dy, state, dx, dw));
    });
  }

 private:
  const Walk walk_;
  const Walk split_walk_;  // of evaluation, which has no sums
};

}  // namespace

ImplEntry<BatchNormProblem> batch_norm_custom_two_pass() {
  return {.id = "custom_two_pass",
          .unsupported = batch_norm::unsupported,
          .make = make_implementation<BatchNormCustomTwoPass>,
          .dtypes = gpu_dtypes()};
}

}  // namespace duet
