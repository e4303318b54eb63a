// batch_norm2d_relu_pool custom_welford: batch_norm's statistics, and then windows in registers: what
//           stands between batch normalisation and pooling never reaches memory. Backward stores no
//           place of a maximum. It computes from x once more what forward compared, by the same
//           instructions on the same numbers, as batch normalisation needs x there anyway.
// Mapping:  the moments of x as batch_norm's custom_welford. Then block = a split of the windows of 1
//           channel (NHWC: of up to 128), 256 threads; a thread takes 2x2 pixels of 4 channels (NHWC,
//           C % 4 = 0), of 2 neighbouring windows (NCHW, W % 4 = 0), or of 1.
// Traffic:  forward x twice, y once; backward x and dy twice, dx once. y and dy are a quarter of x.
// Limits:   fp32 or bf16, both layouts, 2x2 windows that tile the image (a last row or column that is
//           in no window may be left over), fewer than 2^31 values.
#include "layers/batch_norm/batch_norm_moments.cuh"
#include "layers/batch_norm_relu_pool/batch_norm_relu_pool_kernels.cuh"

namespace duet {
namespace {

using namespace batch_norm_pool;

template <class F>
__global__ void __launch_bounds__(kThreads)
    batch_norm_pool_moments_welford_kernel(Walk walk, const typename F::Value* x,
                                           Moments* partial) {
  wait_for_primary();
  keep_moments<F>(walk, x, partial);
}

// `splits`: of the moments.
template <class F>
__global__ void __launch_bounds__(kThreads)
    batch_norm_pool_forward_welford_kernel(Windows t, const Moments* partial, int splits,
                                           Forward<typename F::Value> f) {
  wait_for_primary();
  Walk moments = t.walk;
  moments.splits = splits;
  write_largest<F>(t, f, statistics_of_moments<F>(moments, partial, f));
}

template <class F>
__global__ void __launch_bounds__(kThreads)
    batch_norm_pool_sums_welford_kernel(Windows t, Backward<typename F::Value> b, Sums* partial) {
  wait_for_primary();
  const Statistics<F> s = statistics_of_backward<F>(t.walk, b);
  const Affine<F> affine = affine_of<F>(t.walk, b, s);
  Sums sums[F::kChannels] = {};
  for_each_place<F>(t, [&](const Place& at) {
    add_windows<F>(load_patch<F>(t, b.x, at), load<F::V>(b.dy + at.y), s, affine, sums);
  });
#pragma unroll
  for (int k = 0; k < F::kChannels; ++k) sums[k] = block_combine(sums[k], t.walk.lanes, add);
  keep_partial<F>(t.walk, sums, partial);
}

// `t` has a unit for every pixel, `splits` are those of the sums.
template <class F>
__global__ void __launch_bounds__(kThreads)
    batch_norm_pool_backward_welford_kernel(Windows t, const Sums* partial, int splits,
                                            Backward<typename F::Value> b) {
  wait_for_primary();
  Walk of_sums = t.walk;
  of_sums.splits = splits;
  Sums sums[F::kChannels];
  combine_partial<F>(of_sums, partial, add, sums);
  keep_gradients<F>(t.walk, b, sums);
  if (b.dx == nullptr) return;
  const Statistics<F> s = statistics_of_backward<F>(t.walk, b);
  const Affine<F> affine = affine_of<F>(t.walk, b, s);
  const InputGradient<F> gradient(t.walk, b.training, s, affine, sums);
  for_each_place<F>(t, [&](const Place& at) {
    write_input_gradients<F>(t, at, load_patch<F>(t, b.x, at), load_gradient<F>(b.dy, at), gradient,
                             b.dx);
  });
}

class BatchNormReluPoolCustomWelford : public CustomBlock<BatchNormReluPoolCustomWelford> {
 public:
  explicit BatchNormReluPoolCustomWelford(const Problem& problem)
      : CustomBlock(problem),
        moments_(walk_of(problem.norm, true)),
        pixels_(windows_of(problem, true)) {}

  size_t workspace_bytes(Pass pass) const override {
    const auto channels = static_cast<size_t>(problem_.norm.channels());
    return channels * (pass == Pass::kForward ? moments_.splits * sizeof(Moments)
                                              : windows_.walk.splits * sizeof(Sums));
  }
  std::string detail(Pass) const override {
    return form_text() + ", " + std::to_string(windows_.walk.splits) + " splits";
  }

  template <class F>
  void train(const Run& run, const Forward<typename F::Value>& f) const {
    auto* const partial = static_cast<Moments*>(run.workspace);
    with_form_of<false>(problem_.norm, [&](auto form) {
      using M = decltype(form);
      if constexpr (std::is_same_v<typename M::Value, typename F::Value>) {
        launch(moments_, moments_.splits, run.stream(), batch_norm_pool_moments_welford_kernel<M>,
               moments_, f.x, partial);
      }
    });
    launch(windows_.walk, windows_.walk.splits, run.stream(),
           batch_norm_pool_forward_welford_kernel<F>, windows_, partial, moments_.splits, f);
  }
  template <class F>
  void gradients(const Run& run, const Backward<typename F::Value>& b) const {
    auto* const partial = static_cast<Sums*>(run.workspace);
    launch(windows_.walk, windows_.walk.splits, run.stream(),
           batch_norm_pool_sums_welford_kernel<F>, windows_, b, partial);
    const int blocks = b.dx ? pixels_.walk.splits : 1;  // one writes dweight and dbias
    launch(pixels_.walk, blocks, run.stream(), batch_norm_pool_backward_welford_kernel<F>, pixels_,
           partial, windows_.walk.splits, b);
  }

 private:
  const Walk moments_;
  const Windows pixels_;
};

}  // namespace

ImplEntry<BatchNormReluPoolProblem> batch_norm_relu_pool_custom_welford() {
  return impl_entry<BatchNormReluPoolCustomWelford>("custom_welford", batch_norm_pool::unsupported,
                                                    gpu_dtypes());
}

}  // namespace duet
