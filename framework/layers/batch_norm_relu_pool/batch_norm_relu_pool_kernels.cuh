// What the kernels of batch_norm2d_relu_pool share: which pixels a thread has, and what is done with
// the four of a window. 2x2 windows that tile the image, but for an odd last row or column.
#pragma once

#include "kernels/integers.cuh"
#include "layers/batch_norm/batch_norm_given.cuh"
#include "layers/batch_norm_relu_pool/batch_norm_relu_pool.h"

namespace duet::batch_norm_pool {

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
  const int begin = walk.split() * walk.units_per_split;
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
    store_pairs(to, pixels);
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

/// A window's largest value after relu, and which of the four it is: relu of the largest, which is the same where
/// there is a gradient.
struct Largest {
  float value;
  int at;
};
template <class F>
__device__ __forceinline__ Largest largest_of(const Patch<F>& x, int k, const Affine<F>& affine) {
  Largest largest;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float y = affine(x.v[j].v[k], F::channel_of(k));
    if (j == 0 || takes_over(y, largest.value)) largest = {y, j};
  }
  largest.value = ReluFunction().forward(largest.value);
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
__device__ __forceinline__ Vector<float, F::V> largest_values(const Patch<F>& x,
                                                              const Affine<F>& affine) {
  Vector<float, F::V> y;
#pragma unroll
  for (int k = 0; k < F::V; ++k) y.v[k] = largest_of<F>(x, k, affine).value;
  return y;
}

/// Adds the windows of a unit to the sums that backward needs: only their largest values have a gradient.
template <class F>
__device__ __forceinline__ void add_windows(const Patch<F>& x, const Vector<float, F::V>& dy,
                                            const Statistics<F>& s, const Affine<F>& affine,
                                            Sums (&sums)[F::kChannels]) {
#pragma unroll
  for (int k = 0; k < F::V; ++k) {
    const int i = F::channel_of(k);
    const Largest largest = largest_of<F>(x, k, affine);
    float at = x.v[0].v[k];
#pragma unroll
    for (int j = 1; j < 4; ++j) at = largest.at == j ? x.v[j].v[k] : at;
    const float d = dy.v[k] * ReluFunction().gradient(largest.value, largest.value);
    sums[i].dy += d;
    sums[i].product += d * ((at - s.mean[i]) * s.inverse[i]);
  }
}

/// dx of a unit; dy is 0 where the unit is no whole window.
template <class F>
__device__ __forceinline__ Patch<F> input_gradients(Patch<F> x, const Vector<float, F::V>& dy,
                                                    const InputGradient<F>& gradient) {
#pragma unroll
  for (int k = 0; k < F::V; ++k) {
    float d[4];
    unpool<F>(x, k, dy.v[k], gradient.affine, d);
#pragma unroll
    for (int j = 0; j < 4; ++j) x.v[j].v[k] = gradient(x.v[j].v[k], d[j], F::channel_of(k));
  }
  return x;
}
template <class F>
__device__ __forceinline__ void write_input_gradients(const Windows& t, const Place& at,
                                                      const Patch<F>& x,
                                                      const Vector<float, F::V>& dy,
                                                      const InputGradient<F>& gradient,
                                                      typename F::Value* dx) {
  const Patch<F> d = input_gradients<F>(x, dy, gradient);
  store_pair<F>(t, dx + at.x, at.right, d.v[0], d.v[1]);
  if (at.below) store_pair<F>(t, dx + at.x + row_step<F>(t), at.right, d.v[2], d.v[3]);
}

/// dy of a unit, or 0 where that is no whole window.
template <class F>
__device__ __forceinline__ Vector<float, F::V> load_gradient(const typename F::Value* dy,
                                                             const Place& at) {
  if (!at.whole()) return {};
  return load<F::V>(dy + at.y);
}

/// y of the windows of the thread.
template <class F>
__device__ __forceinline__ void write_largest(const Windows& t, const Forward<typename F::Value>& f,
                                              const Statistics<F>& s) {
  const Affine<F> affine = affine_of<F>(t.walk, f, s);
  for_each_place<F>(t, [&](const Place& at) {
    store_pairs(f.y + at.y, largest_values<F>(load_patch<F>(t, f.x, at), affine));
  });
}

/// y in evaluation.
template <class F>
static __global__ void __launch_bounds__(kThreads)
    batch_norm_pool_evaluation_kernel(Windows t, Forward<typename F::Value> f) {
  wait_for_primary();
  write_largest<F>(t, f, running_statistics<F>(t.walk, f.running_mean, f.running_var));
}

/// y of moments that are given, as batch_norm_given.cuh has it.
template <class F>
static __global__ void __launch_bounds__(kThreads)
    batch_norm_pool_given_kernel(Windows t, ChannelMoments given, Forward<typename F::Value> f) {
  wait_for_primary();
  write_largest<F>(t, f, given_statistics<F>(t.walk, given, f));
}
template <class F>
static __global__ void __launch_bounds__(kThreads)
    batch_norm_pool_normalise_kernel(Windows t, Forward<typename F::Value> f) {
  wait_for_primary();
  write_largest<F>(t, f, kept_statistics<F>(t.walk, f.state));
}

inline bool in_planes(const Problem& problem) {
  return problem.pool.layout == Layout::kNCHW || problem.pool.c == 1;
}
/// V of the form.
inline int window_vector(const Problem& problem) {
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

/// The windows, or where `all` as many units as hold every pixel; cut as many blocks as fill the GPU.
inline Windows windows_of(const Problem& problem, bool all) {
  const Pool2dProblem& pool = problem.pool;
  const int rows = all ? ceil_div(pool.h, 2) : pool.p;
  const int columns =
      (all ? ceil_div(pool.w, 2) : pool.q) / (in_planes(problem) ? window_vector(problem) : 1);
  Walk walk = walk_of(problem.norm, false);
  walk.units = pool.n * rows * columns;
  cut(walk);
  return {walk, pool.h, pool.w, pool.p, pool.q, FastDivisor(columns), FastDivisor(rows)};
}

/// An implementation by these kernels. Self has train<F>(run, t, Forward), and gradients<F>(run,
/// Backward), which queue its kernels of form F.
template <class Self>
class CustomBlock : public ImplementationOf<Problem> {
 public:
  explicit CustomBlock(const Problem& problem)
      : ImplementationOf(problem), windows_(windows_of(problem, false)) {}

  size_t state_bytes() const override {
    return static_cast<size_t>(2 * problem_.norm.channels()) * sizeof(float);
  }

  void run(Pass pass, const Run& run, const LayerTensors& t) final {
    const bool affine = problem_.norm.affine;
    const auto w = BatchNormParameters::of(t.w, affine);
    if (pass != Pass::kForward && !t.dx[0] && !affine) return;
    with_window_form(problem_, [&](auto form) {
      using F = decltype(form);
      if (pass != Pass::kForward) {
        return self().template gradients<F>(
            run, Backward<typename F::Value>(run.training, t.x[0], w, t.dy[0], t.state, t.dx[0],
                                             BatchNormParameters::of(t.dw, affine)));
      }
      const Forward<typename F::Value> f(t.x[0], w, t.y[0], t.state);
      if (run.training && run.ports.x_moments) return of_moments<F>(run, f);
      if (run.training) return self().template train<F>(run, f);
      launch(windows_.walk, windows_.walk.splits, run.stream(),
             batch_norm_pool_evaluation_kernel<F>, windows_, f);
    });
  }

  std::vector<PortUse> ports(Pass pass, bool inference) const final {
    return batch_norm::taken_moments(pass, inference, problem_.norm);
  }

 protected:
  std::string form_text() const {
    return std::to_string(window_vector(problem_)) +
           (in_planes(problem_) ? " windows" : " channels") + " a thread";
  }

  const Windows windows_;

 private:
  const Self& self() const { return static_cast<const Self&>(*this); }

  template <class F>
  void of_moments(const Run& run, const Forward<typename F::Value>& f) const {
    const auto given = ChannelMoments::at(run.ports.x_moments);
    const Walk& walk = windows_.walk;
    if constexpr (F::kPlanes) {
      launch(walk, walk.splits, run.stream(), batch_norm_pool_given_kernel<F>, windows_, given, f);
    } else {
      launch_statistics(run, walk, given, f);
      launch(walk, walk.splits, run.stream(), batch_norm_pool_normalise_kernel<F>, windows_, f);
    }
  }
};

inline std::optional<std::string> unsupported(const Problem& problem, Pass pass) {
  const Pool2dProblem& p = problem.pool;
  const bool tiles = p.r == 2 && p.s == 2 && p.stride_h == 2 && p.stride_w == 2;
  if (!tiles || p.pad_h != 0 || p.pad_w != 0) return "pools 2x2 windows that tile the image";
  return batch_norm::unsupported(problem.norm, pass);
}

}  // namespace duet::batch_norm_pool
