// batch_norm2d_relu_pool custom_welford: batch_norm's statistics, and then windows in registers: what
//           stands between batch normalisation and pooling never reaches memory. Backward stores no
//           place of a maximum. It computes from x once more what forward compared, by the same
//           instructions on the same numbers, as batch normalisation needs x there anyway.
// Mapping:  NCHW: the moments of x as batch_norm's custom_welford, then block = a split of the windows of 1
//           channel, 256 threads; a thread takes 2x2 pixels, of 2 neighbouring windows where W % 4 = 0. NHWC: as
//           batch_norm's custom_welford, with 2x2 pixels of 16 bytes of channels (4, or 1) in the place of one.
// Traffic:  forward x twice, y once; backward x and dy twice, dx once. y and dy are a quarter of x. In NHWC what
//           the GPU holds between the two looks is read once. Behind a convolution that leaves the moments of x
//           forward reads it once (batch_norm_given.cuh).
// Limits:   fp32 or bf16, both layouts, 2x2 windows that tile the image (a last row or column that is
//           in no window may be left over), fewer than 2^31 values.
#include "layers/batch_norm/batch_norm_rows.cuh"
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

// `t` has a unit for every pixel, `splits` are those of the sums. Splits are taken from the last on, of which L2 still
// has most.
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
  t.walk.turn = {true, static_cast<int>(blockIdx.x), static_cast<int>(gridDim.y - 1 - blockIdx.y)};
  for_each_place<F>(t, [&](const Place& at) {
    write_input_gradients<F>(t, at, load_patch<F>(t, b.x, at), load_gradient<F>(b.dy, at), gradient,
                             b.dx);
  });
}

/// The four pixels of a window, or of a part of one at the right and lower edge.
template <class F>
struct WindowUnits {
  static constexpr int kParts = 4;
  const Windows& t;

  __device__ __forceinline__ void place(int channel, int unit, int* x, int& y) const {
    const Place at = place_of<F>(t, channel, unit);
    const int right = t.walk.channels, below = row_step<F>(t);
    x[0] = at.x;
    if (at.right) x[1] = at.x + right;
    if (at.below) x[2] = at.x + below;
    if (at.whole()) {
      x[3] = at.x + below + right;
      y = at.y;
    }
  }
  template <class Values>
  static __device__ __forceinline__ Patch<F> patch_of(const Values& x, int i) {
    return {{x[i], x[i + 1], x[i + 2], x[i + 3]}};
  }
  template <class Values>
  __device__ __forceinline__ void write_y(const Forward<typename F::Value>& f, const int*, int y,
                                          const Values& x, int i, const Affine<F>& affine) const {
    if (y >= 0) store_streaming(f.y + y, largest_values<F>(patch_of(x, i), affine));
  }
  template <class Values>
  __device__ __forceinline__ void add(const Values& x, int i, const Vector<float, F::V>& dy,
                                      const Statistics<F>& s, const Affine<F>& affine,
                                      Sums (&sums)[F::kChannels]) const {
    add_windows<F>(patch_of(x, i), dy, s, affine, sums);
  }
  template <class Values>
  __device__ __forceinline__ void write_dx(const Backward<typename F::Value>& b, const int* at,
                                           const Values& x, int i, const Vector<float, F::V>& dy,
                                           const InputGradient<F>& gradient) const {
    if (at[0] < 0) return;
    const Patch<F> dx = input_gradients<F>(patch_of(x, i), dy, gradient);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (at[j] >= 0) store_streaming(b.dx + at[j], dx.v[j]);
    }
  }
};

template <class F>
__global__ void __launch_bounds__(kThreads, kRowBlocks)
    batch_norm_pool_forward_rows_welford_kernel(Rows rows, Turns turns, Windows t,
                                                Forward<typename F::Value> f) {
  wait_for_primary();
  normalise_rows<F>(rows, turns, f, WindowUnits<F>{t});
}
template <class F>
__global__ void __launch_bounds__(kThreads, kRowBlocks)
    batch_norm_pool_backward_rows_welford_kernel(Rows rows, Turns turns, Windows t,
                                                 Backward<typename F::Value> b) {
  wait_for_primary();
  find_row_gradients<F>(rows, turns, b, WindowUnits<F>{t});
}

/// Images in planes.
class WelfordPlanes : public CustomBlock<WelfordPlanes> {
 public:
  explicit WelfordPlanes(const Problem& problem)
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
    if constexpr (F::kPlanes) {
      auto* const partial = static_cast<Moments*>(run.workspace);
      with_form_of<false>(problem_.norm, [&](auto form) {
        using M = decltype(form);
        if constexpr (M::kPlanes && std::is_same_v<typename M::Value, typename F::Value>) {
          launch(moments_, moments_.splits, run.stream(), batch_norm_pool_moments_welford_kernel<M>,
                 moments_, f.x, partial);
        }
      });
      launch(windows_.walk, windows_.walk.splits, run.stream(),
             batch_norm_pool_forward_welford_kernel<F>, windows_, partial, moments_.splits, f);
    }
  }
  template <class F>
  void gradients(const Run& run, const Backward<typename F::Value>& b) const {
    if constexpr (F::kPlanes) {
      auto* const partial = static_cast<Sums*>(run.workspace);
      launch(windows_.walk, windows_.walk.splits, run.stream(),
             batch_norm_pool_sums_welford_kernel<F>, windows_, b, partial);
      const int blocks = b.dx ? pixels_.walk.splits : 1;  // one writes dweight and dbias
      launch(pixels_.walk, blocks, run.stream(), batch_norm_pool_backward_welford_kernel<F>,
             pixels_, partial, windows_.walk.splits, b);
    }
  }

 private:
  const Walk moments_;
  const Windows pixels_;
};

/// Images whose channels are innermost.
class WelfordRows : public CustomBlock<WelfordRows> {
 public:
  explicit WelfordRows(const Problem& problem)
      : CustomBlock(problem),
        pixels_(windows_of(problem, true)),
        forward_(rows_of(problem.norm, pixels_.walk.units, 4)),
        backward_(rows_of(problem.norm, pixels_.walk.units, 5)),
        counters_(forward_.walk.groups) {}

  size_t workspace_bytes(Pass pass) const override {
    return row_workspace_bytes(pass == Pass::kForward ? forward_ : backward_);
  }
  std::string detail(Pass pass) const override {
    return row_form_text(problem_.norm) + ", " +
           rows_text(pass == Pass::kForward ? forward_ : backward_);
  }

  template <class F>
  void train(const Run& run, const Forward<typename F::Value>& f) const {
    with_rows<F>([&](auto form) {
      launch_rows(run, forward_, counters_, true,
                  batch_norm_pool_forward_rows_welford_kernel<decltype(form)>, pixels_, f);
    });
  }
  template <class F>
  void gradients(const Run& run, const Backward<typename F::Value>& b) const {
    with_rows<F>([&](auto form) {
      launch_rows(run, backward_, counters_, b.dx != nullptr,
                  batch_norm_pool_backward_rows_welford_kernel<decltype(form)>, pixels_, b);
    });
  }

 private:
  template <class F, class Visit>
  void with_rows(Visit visit) const {
    if constexpr (!F::kPlanes) {
      using M = Form<typename F::Value, false, F::V, true>;
      with_row_form<M>(problem_.norm, [&](auto form) {
        visit(WindowForm<typename F::Value, false, decltype(form)::V>());
      });
    }
  }

  const Windows pixels_;
  const Rows forward_, backward_;
  const TurnCounters counters_;
};

std::unique_ptr<Implementation> make(const Problem& problem, Context&) {
  if (in_planes(problem)) return std::make_unique<WelfordPlanes>(problem);
  return std::make_unique<WelfordRows>(problem);
}

}  // namespace

ImplEntry<BatchNormReluPoolProblem> batch_norm_relu_pool_custom_welford() {
  return {"custom_welford", batch_norm_pool::unsupported, make, false, gpu_dtypes()};
}

}  // namespace duet
