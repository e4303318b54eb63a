// conv2d custom_depthwise: every filter reads one channel, so that a product with few terms is left,
//           bound by memory: no tiles of channels, but runs of neighbouring outputs.
// Mapping:  forward, and backward_data of stride 1, which is a forward pass with the filter turned
//           round: thread = 4 neighbouring outputs, whose inputs stand in registers a row at a time.
//           backward_data of stride 2: thread = 4 neighbouring dx, likewise; other: thread = 1 dx.
//           backward_filter: block = 1 to 8 filters x a share of the outputs, 256 threads; thread = 4
//           neighbouring dy at a time, all taps in registers.
// Traffic:  forward x once from L2, R times from L1, y once; backward_data dy likewise, dx once;
//           backward_filter x and dy once (of several filters a channel x once each).
// Limits:   fp32 or bf16, fp32 FMA, nchw, groups = C, K a multiple of C. Kernels 3x3, 5x5 and 7x7 of
//           stride 1 or 2 without dilation are unrolled; others are loops, and backward_filter then
//           reads x and dy once a tap.
#include "device/launch.h"
#include "kernels/block_combine.cuh"
#include "kernels/load_if.cuh"
#include "kernels/split_reduction.cuh"
#include "kernels/vector.cuh"
#include "layers/conv2d/conv2d.h"

namespace duet {
namespace {

constexpr int kThreads = kCombineThreads;
constexpr int kRun = 4;  // neighbouring outputs of a thread

/// A convolution as a kernel sees it.
struct Depthwise {
  Conv2dProblem d;
  int multiplier = d.k / d.c;  // filters of a channel
  int runs = ceil_div(d.q, kRun), runs_in = ceil_div(d.w, kRun);
  FastDivisor by_runs{runs}, by_runs_in{runs_in}, by_p{d.p}, by_k{d.k}, by_w{d.w}, by_h{d.h},
      by_c{d.c};
  FastDivisor by_multiplier{multiplier};

  explicit Depthwise(const Conv2dProblem& problem) : d(problem) {}
};

/// The convolution whose forward pass is backward_data of `d`, but for the filter.
Conv2dProblem turned_round(const Conv2dProblem& d) {
  Conv2dProblem t = d;
  t.h = d.p;
  t.w = d.q;
  t.p = d.h;
  t.q = d.w;
  t.pad_h = d.r - 1 - d.pad_h;
  t.pad_w = d.s - 1 - d.pad_w;
  return t;
}

// The columns left, left + 1, ... of a row; 0 outside the image.
template <int kCount, class T>
__device__ __forceinline__ void load_window(const T* row, int left, int width,
                                            float (&window)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const int col = left + i;
    window[i] = col >= 0 && col < width ? float{row[col]} : 0.0f;
  }
}

/// The inputs of kRun neighbouring outputs, 0 outside the image, as they are stored: loads of all rows are under way before one
/// is waited for. kQuads: four values at once. REQUIRES: then the width is a multiple of four, and padding half of the
/// kernel.
template <int kSize, int kStride, bool kQuads, class T>
class Window {
 public:
  /// Of outputs from column q on, a multiple of kRun, whose first row of inputs is `top` of `plane`.
  __device__ __forceinline__ void load(const Conv2dProblem& d, const T* plane, int top, int q) {
    const int left = q * kStride - (kQuads ? kBefore + kPad : d.pad_w);
#pragma unroll
    for (int r = 0; r < kSize; ++r)
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int h = top + r, col = left + i * kVec;
        load_if(uint32_t(h) < uint32_t(d.h) && uint32_t(col) < uint32_t(d.w), plane + h * d.w + col,
                words_[r][i]);
      }
  }
  /// In row r, column i from that of the first output's first tap on.
  __device__ __forceinline__ float operator()(int r, int i) const {
    Vector<T, kVec> values;
    memcpy(&values, &words_[r][(kBefore + i) / kVec], sizeof values);
    return float(values.v[(kBefore + i) % kVec]);
  }

 private:
  static constexpr int kCount = (kRun - 1) * kStride + kSize, kVec = kQuads ? 4 : 1;
  static constexpr int kPad = kSize / 2, kBefore = kQuads ? round_up(kPad, 4) - kPad : 0;
  static constexpr int kLoads = round_up(kBefore + kCount, kVec) / kVec;
  static_assert(kRun == 4);
  WordOf<sizeof(T) * kVec> words_[kSize][kLoads];
};

// y from x; if kTurned, dx from dy: of turned_round(), whose images have k channels before and c
// after.
template <int kSize, int kStride, bool kTurned, bool kQuads, class T>
__global__ void __launch_bounds__(kThreads)
    conv2d_outputs_depthwise_kernel(Depthwise g, int units, const T* x, const float* w,
                                    const float* b, T* y) {
  wait_for_primary();
  const int unit = blockIdx.x * kThreads + threadIdx.x;
  if (unit >= units) return;
  const Conv2dProblem& d = g.d;
  int rest, run, p, n, channel;
  g.by_runs.divmod(unit, rest, run);
  g.by_p.divmod(rest, rest, p);
  (kTurned ? g.by_c : g.by_k).divmod(rest, n, channel);
  const int q = run * kRun;
  const int rows = kSize > 0 ? kSize : d.r, cols = kSize > 0 ? kSize : d.s;
  int source = channel, unused;
  if (kTurned) {
    source = channel * g.multiplier;
  } else {
    g.by_multiplier.divmod(channel, source, unused);
  }
  const int filters = kTurned ? g.multiplier : 1;
  float sums[kRun] = {};
  for (int i = 0; i < filters; ++i) {
    const int64_t plane = static_cast<int64_t>(n) * (kTurned ? d.k : d.c) + source + i;
    const float* filter = w + static_cast<int64_t>(kTurned ? source + i : channel) * rows * cols;
    const auto tap_of = [&](int r, int s) {
      return __ldg(filter + (kTurned ? rows - 1 - r : r) * cols + (kTurned ? cols - 1 - s : s));
    };
    const T* const plane_x = x + plane * d.h * d.w;
    if constexpr (kSize > 0) {
      Window<kSize, kStride, kQuads, T> window;
      window.load(d, plane_x, p * kStride - d.pad_h, q);
#pragma unroll
      for (int r = 0; r < kSize; ++r) {
        // region row
#pragma unroll
        for (int s = 0; s < kSize; ++s) {
          const float tap = tap_of(r, s);
#pragma unroll
          for (int j = 0; j < kRun; ++j) sums[j] += window(r, j * kStride + s) * tap;
        }
        // end row
      }
    } else {
      for (int r = 0; r < d.r; ++r) {
        const int h = p * d.stride_h + r * d.dilation_h - d.pad_h;
        if (h < 0 || h >= d.h) continue;
        for (int s = 0; s < d.s; ++s) {
          const float tap = tap_of(r, s);
#pragma unroll
          for (int j = 0; j < kRun; ++j) {
            const int col = (q + j) * d.stride_w + s * d.dilation_w - d.pad_w;
            if (col >= 0 && col < d.w) sums[j] += plane_x[h * d.w + col] * tap;
          }
        }
      }
    }
  }
  const float shift = b ? __ldg(b + channel) : 0.0f;
  T* to = y + (static_cast<int64_t>(rest) * d.p + p) * d.q + q;
  if (d.q % kRun == 0) {
    store_word(to, Vector<float, kRun>{
                       {sums[0] + shift, sums[1] + shift, sums[2] + shift, sums[3] + shift}});
    return;
  }
#pragma unroll
  for (int j = 0; j < kRun; ++j) {
    if (q + j < d.q) to[j] = T(sums[j] + shift);
  }
}

// dx of stride 2: a thread has kRun neighbouring dx of a row, which every second row of taps has read, each by every
// second tap. kOdd: the padding's.
template <int kSize, bool kOdd, class T>
__global__ void __launch_bounds__(kThreads)
    conv2d_inputs_depthwise_kernel(Depthwise g, int units, const T* dy, const float* w, T* dx) {
  wait_for_primary();
  const int unit = blockIdx.x * kThreads + threadIdx.x;
  if (unit >= units) return;
  const Conv2dProblem& d = g.d;
  int plane, rest, run, h, n, c;
  g.by_runs_in.divmod(unit, rest, run);
  g.by_h.divmod(rest, plane, h);
  g.by_c.divmod(plane, n, c);
  // Output q is read by taps s of column 2q + s - pad_w.
  constexpr int kBefore = (kSize - 1) / 2, kWindow = kBefore + 1 + (kRun - 1 + kOdd) / 2;
  const int column = run * kRun, q = (column + d.pad_w - kOdd) / 2 - kBefore, top = h + d.pad_h;
  float sums[kRun] = {};
  for (int i = 0; i < g.multiplier; ++i) {
    const int k = c * g.multiplier + i;
    const T* const gradient = dy + (static_cast<int64_t>(n) * d.k + k) * d.p * d.q;
    const float* const filter = w + static_cast<int64_t>(k) * kSize * kSize;
#pragma unroll
    for (int j = 0; j <= kBefore; ++j) {
      const int r = 2 * j + (top & 1), p = (top >> 1) - j;
      if (r >= kSize || uint32_t(p) >= uint32_t(d.p)) continue;
      float window[kWindow];
      load_window(gradient + p * d.q, q, d.q, window);
#pragma unroll
      for (int s = 0; s < kSize; ++s) {
        const float tap = __ldg(filter + r * kSize + s);
#pragma unroll
        for (int e = 0; e < kRun; ++e)
          if ((e + kOdd - s) % 2 == 0) sums[e] += window[kBefore + (e + kOdd - s) / 2] * tap;
      }
    }
  }
  T* const to = dx + (static_cast<int64_t>(plane) * d.h + h) * d.w + column;
  if (d.w % kRun == 0) {
    store_word(to, Vector<float, kRun>{{sums[0], sums[1], sums[2], sums[3]}});
  } else {
#pragma unroll
    for (int e = 0; e < kRun; ++e)
      if (column + e < d.w) to[e] = T(sums[e]);
  }
}

// dx of any stride and dilation: which outputs have read this input?
template <class T>
__global__ void __launch_bounds__(kThreads)
    conv2d_backward_data_depthwise_kernel(Depthwise g, int count, const T* dy, const float* w,
                                          T* dx) {
  wait_for_primary();
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= count) return;
  const Conv2dProblem& d = g.d;
  int rest, n, c, h, col;
  g.by_w.divmod(i, rest, col);
  g.by_h.divmod(rest, rest, h);
  g.by_c.divmod(rest, n, c);
  float sum = 0.0f;
  for (int r = 0; r < d.r; ++r) {
    const int top = h + d.pad_h - r * d.dilation_h, p = top / d.stride_h;
    if (top < 0 || top % d.stride_h != 0 || p >= d.p) continue;
    for (int s = 0; s < d.s; ++s) {
      const int left = col + d.pad_w - s * d.dilation_w, q = left / d.stride_w;
      if (left < 0 || left % d.stride_w != 0 || q >= d.q) continue;
      for (int k = c * g.multiplier; k < (c + 1) * g.multiplier; ++k) {
        const int64_t plane = static_cast<int64_t>(n) * d.k + k;
        sum += dy[(plane * d.p + p) * d.q + q] *
               __ldg(w + (static_cast<int64_t>(k) * d.r + r) * d.s + s);
      }
    }
  }
  dx[i] = T(sum);
}

/// A team's share of the outputs of its filter, as runs.
struct Share {
  int begin, end;
};

/// Calls visit(n, p, q, dy) for every run of thread `first` of a team of `step`; of columns behind the last dy is 0.
template <class T, class Visit>
__device__ __forceinline__ void for_each_run(const Depthwise& g, int k, const Share& share,
                                             int first, int step, const T* dy, Visit visit) {
  const Conv2dProblem& d = g.d;
  for (int unit = share.begin + first; unit < share.end; unit += step) {
    int rest, run, n, p;
    g.by_runs.divmod(unit, rest, run);
    g.by_p.divmod(rest, n, p);
    const int q = run * kRun;
    const T* const row = dy + ((static_cast<int64_t>(n) * d.k + k) * d.p + p) * d.q;
    float gradient[kRun];
    if (d.q % kRun == 0) {
      const auto quad = load<kRun>(row + q);
#pragma unroll
      for (int j = 0; j < kRun; ++j) gradient[j] = quad.v[j];
    } else {
      load_window(row, q, d.q, gradient);
    }
    visit(n, p, q, gradient);
  }
}

/// Of kCount values a thread, a power of two up to 32: lane l gets the warp's sum of values[l % kCount]. Each step halves what
/// a lane still has, so that 32 sums take 31 shuffles.
template <int kCount>
__device__ __forceinline__ float warp_sums(const float (&values)[kCount]) {
  const int lane = threadIdx.x % 32;
  if constexpr (kCount == 1) {
    return values[0];
  } else {
    constexpr int kHalf = kCount / 2;
    const bool upper = (lane & kHalf) != 0;
    float halves[kHalf];
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const float low = values[i], high = values[i + kHalf];
      halves[i] = (upper ? high : low) + __shfl_xor_sync(0xFFFFFFFFu, upper ? low : high, kHalf);
    }
    return warp_sums(halves);
  }
}

/// Adds up the warps' sums of kTaps taps and the bias; the first warp of a team writes them, lane l those of tap l. REQUIRES:
/// the whole block calls.
template <int kTaps>
__device__ __forceinline__ void store_taps(const float (&taps)[kTaps], float bias, int team_warps,
                                           float* dw, float* db) {
  constexpr int kAtOnce = kTaps < 16 ? 16 : 32, kCalls = (kTaps + kAtOnce) / kAtOnce;
  __shared__ float warps[kCalls][kCombineWarps][32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float sums[kCalls];
#pragma unroll
  for (int call = 0; call < kCalls; ++call) {
    float values[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int tap = call * kAtOnce + i;
      values[i] = tap < kTaps ? taps[tap < kTaps ? tap : 0] : tap == kTaps ? bias : 0.f;
    }
    sums[call] = warp_sums(values);
    if (kAtOnce < 32) sums[call] += __shfl_xor_sync(0xFFFFFFFFu, sums[call], 16);
    if (team_warps > 1) warps[call][warp][lane] = sums[call];
  }
  if (team_warps > 1) __syncthreads();
  if (warp % team_warps != 0 || lane >= kAtOnce) return;
#pragma unroll
  for (int call = 0; call < kCalls; ++call) {
    float sum = sums[call];
    for (int w = 1; w < team_warps; ++w) sum += warps[call][warp + w][lane];
    const int tap = call * kAtOnce + lane;
    if (tap < kTaps) {
      if (dw != nullptr) dw[tap] = sum;
    } else if (tap == kTaps && db != nullptr) {
      *db = sum;
    }
  }
}

// dw and db from share blockIdx.y, each share's behind the one before. A team of team_warps warps, of which a block has as
// many as fit, has one filter. db may be null.
template <int kSize, int kStride, bool kQuads, class T>
__global__ void __launch_bounds__(kThreads)
    conv2d_backward_filter_depthwise_kernel(Depthwise g, int team_warps, int units,
                                            int units_per_split, size_t stride, const T* x,
                                            const T* dy, float* dw, float* db) {
  wait_for_primary();
  const Conv2dProblem& d = g.d;
  const int team_threads = 32 * team_warps, teams = kThreads / team_threads;
  const int filter = blockIdx.x * teams + threadIdx.x / team_threads;
  const int first = threadIdx.x % team_threads;
  const bool inside = filter < d.k;
  const int k = inside ? filter : d.k - 1, c = k / g.multiplier, taps = d.r * d.s;
  const int begin = blockIdx.y * units_per_split;
  const Share share = {begin, min(begin + units_per_split, units)};
  dw = inside ? dw + blockIdx.y * stride + static_cast<size_t>(k) * taps : nullptr;
  db = inside && db != nullptr ? db + blockIdx.y * stride + k : nullptr;
  const auto row_of = [&](int n, int h) {
    return x + ((static_cast<int64_t>(n) * d.c + c) * d.h + h) * d.w;
  };
  float bias = 0.0f;
  if constexpr (kSize > 0) {
    float sums[kSize * kSize] = {};
    for_each_run(g, k, share, first, team_threads, dy,
                 [&](int n, int p, int q, const float(&gradient)[kRun]) {
#pragma unroll
                   for (int j = 0; j < kRun; ++j) bias += gradient[j];
                   Window<kSize, kStride, kQuads, T> window;
                   window.load(d, row_of(n, 0), p * kStride - d.pad_h, q);
#pragma unroll
                   for (int r = 0; r < kSize; ++r) {
#pragma unroll
                     for (int j = 0; j < kRun; ++j) {
                       // 0 times an infinity would be a NaN; of quads by stride 1 all are inside.
                       if (!(kQuads && kStride == 1) && q + j >= d.q) continue;
#pragma unroll
                       for (int s = 0; s < kSize; ++s)
                         sums[r * kSize + s] += gradient[j] * window(r, j * kStride + s);
                     }
                   }
                 });
    store_taps(sums, bias, team_warps, dw, db);
  } else {
    for (int i = 0; i < taps; ++i) {
      const int r = i / d.s, s = i % d.s;
      float sum[1] = {};
      for_each_run(g, k, share, first, team_threads, dy,
                   [&](int n, int p, int q, const float(&gradient)[kRun]) {
                     const int h = p * d.stride_h + r * d.dilation_h - d.pad_h;
                     for (int j = 0; j < kRun; ++j) {
                       if (i == 0) bias += gradient[j];
                       const int col = (q + j) * d.stride_w + s * d.dilation_w - d.pad_w;
                       const bool within =
                           h >= 0 && h < d.h && col >= 0 && col < d.w && q + j < d.q;
                       if (within) sum[0] += gradient[j] * row_of(n, h)[col];
                     }
                   });
      store_taps(sum, bias, team_warps, dw != nullptr ? dw + i : nullptr, i == 0 ? db : nullptr);
      __syncthreads();  // what others may still read
    }
  }
}

/// Calls visit(size, stride), constants; 0 and 1 where the kernel is not unrolled.
template <class Visit>
void with_size(const Conv2dProblem& d, Visit&& visit) {
  const auto with_stride = [&](auto size) {
    if (d.stride_h == 1) return visit(size, std::integral_constant<int, 1>());
    visit(size, std::integral_constant<int, 2>());
  };
  const bool unrolled = d.r == d.s && d.stride_h == d.stride_w && d.stride_h <= 2 &&
                        d.dilation_h == 1 && d.dilation_w == 1;
  if (unrolled && d.r == 3) return with_stride(std::integral_constant<int, 3>());
  if (unrolled && d.r == 5) return with_stride(std::integral_constant<int, 5>());
  if (unrolled && d.r == 7) return with_stride(std::integral_constant<int, 7>());
  visit(std::integral_constant<int, 0>(), std::integral_constant<int, 1>());
}

/// The same, and whether windows are loaded by quads.
template <class Visit>
void with_windows(const Conv2dProblem& d, Visit&& visit) {
  with_size(d, [&](auto size, auto step) {
    if constexpr (size() > 0) {
      if (d.w % 4 == 0 && d.pad_w == size() / 2) return visit(size, step, std::true_type());
    }
    visit(size, step, std::false_type());
  });
}

template <class T>
class Conv2dCustomDepthwise : public Conv2dImpl {
 public:
  explicit Conv2dCustomDepthwise(const Conv2dProblem& problem)
      : Conv2dImpl(problem), geometry_(problem), turned_(turned_round(problem)) {
    constexpr int kBlocksPerMultiprocessor = 4, kLeastUnits = 4 * kThreads;
    plan_ = plan_split(problem.k, units(geometry_, 1), kLeastUnits,
                       kBlocksPerMultiprocessor * multiprocessor_count());
  }

  size_t workspace_bytes(Pass pass) const override {
    if (pass != Pass::kBackwardFilter || plan_.splits == 1) return 0;
    return plan_.splits * stride() * sizeof(float);
  }
  std::string detail(Pass pass) const override {
    if (pass == Pass::kBackwardFilter) return std::to_string(plan_.splits) + " splits";
    std::string text = "any size";
    if (pass == Pass::kBackwardData && !can_turn() && !has_halves()) return text;
    with_size(problem_, [&](auto size, auto) {
      if (size > 0) text = std::to_string(size) + "x" + std::to_string(size) + " unrolled";
    });
    return text;
  }

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) override {
    outputs<false>(run, geometry_, problem_.k, x, w, b, y);
  }

  void backward_data(const Run& run, const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    if (can_turn()) return outputs<true>(run, turned_, problem_.c, dy, w, {}, dx);
    if (has_halves()) return inputs(run, dy, w, dx);
    const int count = static_cast<int>(dx.elements());
    launch_following({ceil_div(count, kThreads), kThreads, 0, run.stream()},
                     conv2d_backward_data_depthwise_kernel<T>, geometry_, count, dy.data<T>(),
                     w.data<float>(), dx.data<T>());
  }

  void backward_filter(const Run& run, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) override {
    const int weights = static_cast<int>(dw.elements());
    float* const parts = static_cast<float*>(run.workspace);
    const bool split = plan_.splits > 1;
    float* const bias = split ? parts + weights : db.data<float>();
    const int team_warps = this->team_warps(), filters = kCombineWarps / team_warps;
    with_windows(problem_, [&](auto size, auto step, auto quads) {
      const dim3 grid(ceil_div(problem_.k, filters), static_cast<unsigned>(plan_.splits));
      launch_following({grid, kThreads, 0, run.stream()},
                       conv2d_backward_filter_depthwise_kernel<size(), step(), quads(), T>,
                       geometry_, team_warps, units(geometry_, 1), plan_.depth_per_split, stride(),
                       x.data<T>(), dy.data<T>(), split ? parts : dw.data<float>(),
                       db ? bias : nullptr);
    });
    if (!split) return;
    launch_reduce_splits(parts, plan_.splits, stride(), db ? weights + problem_.k : weights,
                         weights, dw.data<float>(), db.data<float>(), run.stream());
  }

 private:
  /// Runs of outputs in `channels` channels.
  static int units(const Depthwise& g, int channels) { return g.d.n * channels * g.d.p * g.runs; }
  /// Of a filter: a thread has about one run, or more where the block's are too few.
  int team_warps() const {
    const int runs = std::min(units(geometry_, 1), plan_.depth_per_split);
    int warps = 1;
    while (warps < kCombineWarps && 32 * warps < runs) warps *= 2;
    return warps;
  }
  /// Floats between the partial results of two splits.
  size_t stride() const { return partial_stride(problem_.k, problem_.r * problem_.s); }
  bool can_turn() const {
    return problem_.stride_h == 1 && problem_.stride_w == 1 && problem_.dilation_h == 1 &&
           problem_.dilation_w == 1;
  }

  /// Whether dx has its kernel of stride 2.
  bool has_halves() const {
    bool unrolled = false;
    with_size(problem_, [&](auto size, auto step) { unrolled = size > 0 && step == 2; });
    return unrolled;
  }

  void inputs(const Run& run, const Tensor& dy, const Tensor& w, const Tensor& dx) const {
    const int count = problem_.n * problem_.c * problem_.h * geometry_.runs_in;
    const auto launch = [&](auto size, auto odd) {
      launch_following({ceil_div(count, kThreads), kThreads, 0, run.stream()},
                       conv2d_inputs_depthwise_kernel<size(), odd(), T>, geometry_, count,
                       dy.data<T>(), w.data<float>(), dx.data<T>());
    };
    with_size(problem_, [&](auto size, auto) {
      if constexpr (size() > 0) {
        problem_.pad_w % 2 == 1 ? launch(size, std::true_type()) : launch(size, std::false_type());
      }
    });
  }

  template <bool kTurned>
  void outputs(const Run& run, const Depthwise& g, int channels, const Tensor& from,
               const Tensor& w, const Tensor& b, const Tensor& to) const {
    const int count = units(g, channels);
    with_windows(g.d, [&](auto size, auto step, auto quads) {
      launch_following({ceil_div(count, kThreads), kThreads, 0, run.stream()},
                       conv2d_outputs_depthwise_kernel<size(), step(), kTurned, quads(), T>, g,
                       count, from.data<T>(), w.data<float>(), b.data<float>(), to.data<T>());
    });
  }

  const Depthwise geometry_, turned_;
  SplitPlan plan_;
};

std::optional<std::string> unsupported(const Conv2dProblem& d, Pass) {
  if (d.groups != d.c) {
    return "is for depthwise convolutions, whose groups are their channels: groups is " +
           std::to_string(d.groups) + " of " + std::to_string(d.c) + " channels";
  }
  if (d.layout != Layout::kNCHW) return "takes nchw only";
  // Runs are numbered up to whole blocks, hence the margin.
  constexpr int64_t kMost = (int64_t{1} << 31) - 4096;
  for (const TensorDesc& t : {d.x_desc(), d.w_desc(), d.y_desc()}) {
    if (t.elements() > kMost) return "numbers elements in 32 bits; use a smaller batch";
  }
  return {};
}

}  // namespace

ImplEntry<Conv2dProblem> conv2d_custom_depthwise() {
  return gpu_entry<Conv2dCustomDepthwise>("custom_depthwise", unsupported);
}

}  // namespace duet
