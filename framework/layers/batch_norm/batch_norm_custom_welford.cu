// batch_norm custom_welford: mean and variance in one pass over x, shared by as many blocks as fill
//           the GPU. B. P. Welford: Note on a Method for Calculating Corrected Sums of Squares and
//           Products, 1962; parts are joined by T. F. Chan, G. H. Golub, R. J. LeVeque: Updating
//           Formulae and a Pairwise Algorithm for Computing Sample Variances, 1979.
// Mapping:  block = a split of 1 channel (NHWC, N x F: of up to 128), 256 threads; 4 values a
//           thread at a time where H*W (C) is a multiple of 4. The first launch leaves the moments
//           of every split in the workspace; each block of the second joins those of its channels
//           and writes its part of y.
// Traffic:  forward x twice, y once; backward x and dy twice, dx once.
// Limits:   fp32 or bf16, both layouts, fewer than 2^31 values.
#include "layers/batch_norm/batch_norm_moments.cuh"

namespace duet {
namespace {

using namespace batch_norm;

template <class F>
__global__ void __launch_bounds__(kThreads)
    batch_norm_forward_welford_kernel(Walk walk, const Moments* partial,
                                      Forward<typename F::Value> t) {
  wait_for_primary();
  normalise<F>(walk, t, statistics_of_moments<F>(walk, partial, t));
}

template <class F>
__global__ void __launch_bounds__(kThreads)
    batch_norm_sums_welford_kernel(Walk walk, Backward<typename F::Value> t, Sums* partial) {
  wait_for_primary();
  Sums sums[F::kChannels];
  sum_gradients<F>(walk, t, statistics_of_backward<F>(walk, t), sums);
#pragma unroll
  for (int k = 0; k < F::kChannels; ++k) sums[k] = block_combine(sums[k], walk.lanes, add);
  keep_partial<F>(walk, sums, partial);
}

template <class F>
__global__ void __launch_bounds__(kThreads)
    batch_norm_backward_welford_kernel(Walk walk, const Sums* partial,
                                       Backward<typename F::Value> t) {
  wait_for_primary();
  Sums sums[F::kChannels];
  combine_partial<F>(walk, partial, add, sums);
  write_gradients<F>(walk, t, statistics_of_backward<F>(walk, t), sums);
}

class BatchNormCustomWelford : public CustomImpl<BatchNormCustomWelford> {
 public:
  using CustomImpl::CustomImpl;

  size_t workspace_bytes(Pass pass) const override {
    const size_t partials =
        static_cast<size_t>(walk().splits) * static_cast<size_t>(walk().channels);
    return partials * (pass == Pass::kForward ? sizeof(Moments) : sizeof(Sums));
  }
  std::string detail(Pass) const override {
    return form_text(problem_) + ", " + std::to_string(walk().splits) +
           (walk().splits == 1 ? " split" : " splits");
  }

  template <class F>
  void train(const Run& run, const Forward<typename F::Value>& t) const {
    auto* partial = static_cast<Moments*>(run.workspace);
    launch(walk(), walk().splits, run.stream(), batch_norm_moments_welford_kernel<F>, walk(), t.x,
           partial);
    launch(walk(), walk().splits, run.stream(), batch_norm_forward_welford_kernel<F>, walk(),
           partial, t);
  }
  template <class F>
  void gradients(const Run& run, const Backward<typename F::Value>& t) const {
    auto* partial = static_cast<Sums*>(run.workspace);
    const int blocks = t.dx ? walk().splits : 1;  // one writes dweight and dbias
    launch(walk(), walk().splits, run.stream(), batch_norm_sums_welford_kernel<F>, walk(), t,
           partial);
    launch(walk(), blocks, run.stream(), batch_norm_backward_welford_kernel<F>, walk(), partial, t);
  }

 private:
  const Walk& walk() const { return split_walk_; }
};

}  // namespace

ImplEntry<BatchNormProblem> batch_norm_custom_welford() {
  return impl_entry<BatchNormCustomWelford>("custom_welford", batch_norm::unsupported,
                                            gpu_dtypes());
}

}  // namespace duet
