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
#include "kernels/integers.cuh"
#include "layers/batch_norm/batch_norm_moments.cuh"
#include "layers/batch_norm_relu_pool/batch_norm_relu_pool.h"

namespace duet {
namespace {

using namespace batch_norm;
using Problem = BatchNormReluPoolProblem;

/// A thread's pixels: V windows side by side (planes), or one of V channels. `odd`: rows of an odd
/// width, whose pixels are moved one by one, and whose last may be alone.
template <class T, bool planes, int v, bool odd = false>
struct WindowForm {
  using Value = T;
  static constexpr bool kPlanes = planes;
  static constexpr int V = v;
  static constexpr int kChannels = planes ? 1 : v;
  static constexpr bool kOdd = odd;
  static __device__ __forceinline__ int channel_of(int k) { return planes ? 0 : k; }
};

/// The windows of an image: where walk.units of a channel are of V windows (planes) or of one.
struct Windows {
  Walk walk;  // of these units, cut into splits
  int height, width, p, q;
  FastDivisor by_columns, by_rows;  // of the units of an image
};

/// Where a unit stands: its first pixel in x, its first window in y, and which of its pixels exist.
struct Place {
  int x, y;
  bool right, below;
  __device__ __forceinline__ bool whole() const { return right && below; }
};

template <class F>
__device__ __forceinline__ Place place_of(const Windows& t, int c, int unit) {
  int line, column, image, row;
  t.by_columns.divmod(unit, line, column);
  t.by_rows.divmod(line, image, row);
  constexpr int kColumns = F::kPlanes ? 2 * F::V : 2;  // of a unit
  const bool below = 2 * row + 1 < t.height;
  const bool right = (F::kPlanes && !F::kOdd) || 2 * column + 1 < t.width;
  const int channels = t.walk.channels;
  if constexpr (F::kPlanes) {
    const int plane = image * channels + c;
    return {(plane * t.height + 2 * row) * t.width + kColumns * column,
            (plane * t.p + row) * t.q + F::V * column, right, below};
  } else {
    return {((image * t.height + 2 * row) * t.width + kColumns * column) * channels + c,
            ((image * t.p + row) * t.q + column) * channels + c, right, below};
  }
}

/// Calls visit(place) for every unit of the thread in its split.
template <class F, class Visit>
__device__ __forceinline__ void for_each_place(const Windows& t, Visit visit) {
  const Walk& walk = t.walk;
  const int c = first_channel<F>(walk);
  if (c >= walk.channels) return;
  const int begin = blockIdx.y * walk.units_per_split;
  const int end = min(begin + walk.units_per_split, walk.units);
  for (int unit = begin + static_cast<int>(threadIdx.x) / walk.lanes; unit < end;
       unit += kThreads / walk.lanes) {
    visit(place_of<F>(t, c, unit));
  }
}

/// The values of 2x2 pixels: [0] and [1] of the upper row, [2] and [3] of the lower.
template <class F>
struct Patch {
  Vector<float, F::V> v[4];
};

/// A row's pixels; `right`: the second exists.
template <class F, class T>
__device__ __forceinline__ void load_pair(const Windows& t, const T* from, bool right,
                                          Vector<float, F::V>& a, Vector<float, F::V>& b) {
  if constexpr (!F::kPlanes) {
    a = load<F::V>(from);
    if (right) b = load<F::V>(from + t.walk.channels);
  } else if constexpr (F::kOdd) {
    a.v[0] = from[0];
    if (right) b.v[0] = from[1];
  } else {
    const auto pixels = load<2 * F::V>(from);
#pragma unroll
    for (int k = 0; k < F::V; ++k) {
      a.v[k] = pixels.v[2 * k];
      b.v[k] = pixels.v[2 * k + 1];
    }
  }
}
template <class F, class T>
__device__ __forceinline__ void store_pair(const Windows& t, T* to, bool right,
                                           const Vector<float, F::V>& a,
                                           const Vector<float, F::V>& b) {
  if constexpr (!F::kPlanes) {
    store(to, a);
    if (right) store(to + t.walk.channels, b);
  } else if constexpr (F::kOdd) {
    to[0] = T(a.v[0]);
    if (right) to[1] = T(b.v[0]);
  } else {
    Vector<float, 2 * F::V> pixels;
#pragma unroll
    for (int k = 0; k < F::V; ++k) {
      pixels.v[2 * k] = a.v[k];
      pixels.v[2 * k + 1] = b.v[k];
    }
    store(to, pixels);
  }
}
/// From a row to the next.
template <class F>
__device__ __forceinline__ int row_step(const Windows& t) {
  return F::kPlanes ? t.width : t.width * t.walk.channels;
}
/// Pixels that do not exist are 0.
template <class F>
__device__ __forceinline__ Patch<F> load_patch(const Windows& t, const typename F::Value* x,
                                               const Place& at) {
  Patch<F> patch = {};
  load_pair<F>(t, x + at.x, at.right, patch.v[0], patch.v[1]);
  if (at.below) load_pair<F>(t, x + at.x + row_step<F>(t), at.right, patch.v[2], patch.v[3]);
  return patch;
}

/// A window's largest value after relu, and which of the four it is.
struct Largest {
  float value;
  int at;
};
template <class F>
__device__ __forceinline__ Largest largest_of(const Patch<F>& x, int k, const Affine<F>& affine) {
  Largest largest = {0.0f, 0};
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float y = ReluFunction().forward(affine(x.v[j].v[k], F::channel_of(k)));
    if (j == 0 || takes_over(y, largest.value)) largest = {y, j};
  }
  return largest;
}
/// The gradients of the four pixels of window k before relu.
template <class F>
__device__ __forceinline__ void unpool(const Patch<F>& x, int k, float dy, const Affine<F>& affine,
                                       float (&d)[4]) {
  const Largest largest = largest_of<F>(x, k, affine);
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    d[j] = j == largest.at ? dy * ReluFunction().gradient(largest.value, largest.value) : 0.0f;
  }
}

template <class F>
__device__ __forceinline__ void write_largest(const Windows& t, const Forward<typename F::Value>& f,
                                              const Statistics<F>& s) {
  const Affine<F> affine = affine_of<F>(t.walk, f, s);
  for_each_place<F>(t, [&](const Place& at) {
    const Patch<F> x = load_patch<F>(t, f.x, at);
    Vector<float, F::V> y;
#pragma unroll
    for (int k = 0; k < F::V; ++k) y.v[k] = largest_of<F>(x, k, affine).value;
    store(f.y + at.y, y);
  });
}

// `splits`: of the moments.
template <class F>
__global__ void __launch_bounds__(kThreads)
    batch_norm_pool_forward_kernel(Windows t, const Moments* partial, int splits,
                                   Forward<typename F::Value> f) {
  wait_for_primary();
  Walk moments = t.walk;
  moments.splits = splits;
  write_largest<F>(t, f, statistics_of_moments<F>(moments, partial, f));
}

template <class F>
__global__ void __launch_bounds__(kThreads)
    batch_norm_pool_evaluation_kernel(Windows t, Forward<typename F::Value> f) {
  wait_for_primary();
  write_largest<F>(t, f, running_statistics<F>(t.walk, f.running_mean, f.running_var));
}

template <class F>
__global__ void __launch_bounds__(kThreads)
    batch_norm_pool_sums_kernel(Windows t, Backward<typename F::Value> b, Sums* partial) {
  wait_for_primary();
  const Statistics<F> s = statistics_of_backward<F>(t.walk, b);
  const Affine<F> affine = affine_of<F>(t.walk, b, s);
  Sums sums[F::kChannels] = {};
  for_each_place<F>(t, [&](const Place& at) {
    const Patch<F> x = load_patch<F>(t, b.x, at);
    const auto dy = load<F::V>(b.dy + at.y);
#pragma unroll
    for (int k = 0; k < F::V; ++k) {
      const int i = F::channel_of(k);
      float d[4];
      unpool<F>(x, k, dy.v[k], affine, d);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        sums[i].dy += d[j];
        sums[i].product += d[j] * ((x.v[j].v[k] - s.mean[i]) * s.inverse[i]);
      }
    }
  });
#pragma unroll
  for (int k = 0; k < F::kChannels; ++k) sums[k] = block_combine(sums[k], t.walk.lanes, add);
  keep_partial<F>(t.walk, sums, partial);
}

// `t` has a unit for every pixel, `splits` are those of the sums.
template <class F>
__global__ void __launch_bounds__(kThreads)
    batch_norm_pool_backward_kernel(Windows t, const Sums* partial, int splits,
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
    Patch<F> x = load_patch<F>(t, b.x, at);
    Vector<float, F::V> dy = {};
    if (at.whole()) dy = load<F::V>(b.dy + at.y);
#pragma unroll
    for (int k = 0; k < F::V; ++k) {
      float d[4];
      unpool<F>(x, k, dy.v[k], affine, d);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        x.v[j].v[k] = gradient(x.v[j].v[k], d[j], F::channel_of(k));
      }
    }
    store_pair<F>(t, b.dx + at.x, at.right, x.v[0], x.v[1]);
    if (at.below) store_pair<F>(t, b.dx + at.x + row_step<F>(t), at.right, x.v[2], x.v[3]);
  });
}

bool in_planes(const Problem& problem) {
  return problem.pool.layout == Layout::kNCHW || problem.pool.c == 1;
}
/// V of the form.
int window_vector(const Problem& problem) {
  if (!in_planes(problem)) return vector_length(problem.norm);
  return problem.pool.w % 4 == 0 ? 2 : 1;
}

/// Calls visit(WindowForm()) for the form of `problem`.
template <class Visit>
void with_window_form(const Problem& problem, Visit&& visit) {
  visit_gpu_storage(problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    const int v = window_vector(problem);
    if (!in_planes(problem)) {
      return v == 4 ? visit(WindowForm<T, false, 4>()) : visit(WindowForm<T, false, 1>());
    }
    if (problem.pool.w % 2 != 0) return visit(WindowForm<T, true, 1, true>());
    v == 2 ? visit(WindowForm<T, true, 2>()) : visit(WindowForm<T, true, 1>());
  });
}

/// The windows, or where `all` as many units as hold every pixel.
Windows windows_of(const Problem& problem, bool all) {
  const Pool2dProblem& pool = problem.pool;
  const int rows = all ? ceil_div(pool.h, 2) : pool.p;
  const int columns =
      (all ? ceil_div(pool.w, 2) : pool.q) / (in_planes(problem) ? window_vector(problem) : 1);
  Walk walk = walk_of(problem.norm, false);
  walk.units = pool.n * rows * columns;
  cut(walk);
  return {walk, pool.h, pool.w, pool.p, pool.q, FastDivisor(columns), FastDivisor(rows)};
}

class BatchNormReluPoolCustomWelford : public ImplementationOf<Problem> {
 public:
  explicit BatchNormReluPoolCustomWelford(const Problem& problem)
      : ImplementationOf(problem),
        moments_(walk_of(problem.norm, true)),
        windows_(windows_of(problem, false)),
        pixels_(windows_of(problem, true)) {}

  size_t state_bytes() const override {
    return static_cast<size_t>(2 * problem_.norm.channels()) * sizeof(float);
  }
  size_t workspace_bytes(Pass pass) const override {
    const auto channels = static_cast<size_t>(problem_.norm.channels());
    return channels * (pass == Pass::kForward ? moments_.splits * sizeof(Moments)
                                              : windows_.walk.splits * sizeof(Sums));
  }
  std::string detail(Pass) const override {
    const std::string v = std::to_string(window_vector(problem_));
    return v + (in_planes(problem_) ? " windows" : " channels") + " a thread, " +
           std::to_string(windows_.walk.splits) + " splits";
  }

  void run(Pass pass, const Run& run, const LayerTensors& t) override {
    const bool affine = problem_.norm.affine;
    const auto w = BatchNormParameters::of(t.w, affine);
    if (pass == Pass::kForward) return forward(run, t, w);
    if (t.dx[0] || affine) backward(run, t, w, BatchNormParameters::of(t.dw, affine));
  }

 private:
  void forward(const Run& run, const LayerTensors& t, const BatchNormParameters& w) const {
    auto* const partial = static_cast<Moments*>(run.workspace);
    if (run.training) {
      with_form_of<false>(problem_.norm, [&](auto form) {
        using F = decltype(form);
        launch(moments_, moments_.splits, run.stream(), batch_norm_moments_welford_kernel<F>,
               moments_, t.x[0].data<typename F::Value>(), partial);
      });
    }
    with_window_form(problem_, [&](auto form) {
      using F = decltype(form);
      const Forward<typename F::Value> f(t.x[0], w, t.y[0], t.state);
      const Walk& walk = windows_.walk;
      if (!run.training) {
        return launch(walk, walk.splits, run.stream(), batch_norm_pool_evaluation_kernel<F>,
                      windows_, f);
      }
      launch(walk, walk.splits, run.stream(), batch_norm_pool_forward_kernel<F>, windows_, partial,
             moments_.splits, f);
    });
  }
  void backward(const Run& run, const LayerTensors& t, const BatchNormParameters& w,
                const BatchNormParameters& dw) const {
    auto* const partial = static_cast<Sums*>(run.workspace);
    with_window_form(problem_, [&](auto form) {
      using F = decltype(form);
      const Backward<typename F::Value> b(run.training, t.x[0], w, t.dy[0], t.state, t.dx[0], dw);
      launch(windows_.walk, windows_.walk.splits, run.stream(), batch_norm_pool_sums_kernel<F>,
             windows_, b, partial);
      const int blocks = b.dx ? pixels_.walk.splits : 1;  // one writes dweight and dbias
      launch(pixels_.walk, blocks, run.stream(), batch_norm_pool_backward_kernel<F>, pixels_,
             partial, windows_.walk.splits, b);
    });
  }

  const Walk moments_;
  const Windows windows_, pixels_;
};

std::optional<std::string> unsupported(const Problem& problem, Pass pass) {
  const Pool2dProblem& p = problem.pool;
  const bool tiles = p.r == 2 && p.s == 2 && p.stride_h == 2 && p.stride_w == 2;
  if (!tiles || p.pad_h != 0 || p.pad_w != 0) return "pools 2x2 windows that tile the image";
  return batch_norm::unsupported(problem.norm, pass);
}

}  // namespace

ImplEntry<Problem> batch_norm_relu_pool_custom_welford() {
  return impl_entry<BatchNormReluPoolCustomWelford>("custom_welford", unsupported, gpu_dtypes());
}

}  // namespace duet
