// custom_direct behind a pooling in tf32 and bf16, with one channel and 3x3 filters: the nine taps are the terms of one mma.sync
// (kernels/mma_tile.cuh), and a window's four outputs four of its sums in one thread, as in direct_forward.cuh.
//
// In forward rows of the instruction are windows, of which an instruction computes one of the four outputs, columns are
// filters, and terms taps. In backward_filter rows are taps and a one, whose products with dy are the bias' gradient, columns
// filters, and terms the four outputs of as many windows: a thread makes them of one dy and the place of the largest.
#pragma once

#include <algorithm>

#include "kernels/mma_tile.cuh"
#include "kernels/rasters.cuh"
#include "kernels/split_reduction.cuh"
#include "layers/conv2d/direct_forward.cuh"

namespace duet {

/// Operands of one or two instructions, from words of lane l, which holds rows l/4 and l/4 + 8 of A, column l/4 of B, and
/// terms by l%4.
template <class T>
struct DirectMma;

template <>
struct DirectMma<bfloat16> {
  static constexpr int kSteps = 1;
  using A = uint32_t[kSteps][4];
  using B = uint32_t[kSteps][2];
  static constexpr uint32_t kOne = 0x3f80;
  /// A lane's two of the first eight taps.
  __device__ static int first_tap(int of_four) { return 2 * of_four; }
  __device__ static int second_tap(int of_four) { return 2 * of_four + 1; }
  __device__ static uint32_t word(bfloat16 value) { return value.bits; }
  __device__ static uint32_t rounded(float value) { return bfloat16(value).bits; }
  /// Taps of both rows, and the ninth or zeros.
  __device__ static void taps_a(A& a, const uint32_t (&first)[2], const uint32_t (&second)[2],
                                const uint32_t (&ninth)[2]) {
    a[0][0] = first[0] | second[0] << 16, a[0][1] = first[1] | second[1] << 16;
    a[0][2] = ninth[0], a[0][3] = ninth[1];
  }
  __device__ static void taps_b(B& b, uint32_t first, uint32_t second, uint32_t ninth) {
    b[0][0] = first | second << 16, b[0][1] = ninth;
  }
  /// The outputs of a window of both rows.
  __device__ static void outputs_a(A& a, const uint32_t (&upper)[4], const uint32_t (&lower)[4]) {
    a[0][0] = upper[0] | upper[1] << 16, a[0][1] = lower[0] | lower[1] << 16;
    a[0][2] = upper[2] | upper[3] << 16, a[0][3] = lower[2] | lower[3] << 16;
  }
  __device__ static void outputs_b(B& b, uint32_t value, uint32_t place) {
    const uint32_t there = value << 16 * (place & 1), half = place >> 1;
    b[0][0] = half == 0 ? there : 0, b[0][1] = half == 1 ? there : 0;
  }
  __device__ static void multiply(float (&c)[4], const A& a, const B& b) {
    MmaBf16::multiply(c[0], c[1], c[2], c[3], a[0], b[0][0], b[0][1]);
  }
};

template <>
struct DirectMma<float> {
  static constexpr int kSteps = 2;
  using A = uint32_t[kSteps][4];
  using B = uint32_t[kSteps][2];
  static constexpr uint32_t kOne = 0x3f800000;
  __device__ static int first_tap(int of_four) { return of_four; }
  __device__ static int second_tap(int of_four) { return of_four + 4; }
  __device__ static uint32_t word(float value) { return rounded(value); }
  __device__ static uint32_t rounded(float value) { return __float_as_uint(tf32_rounded(value)); }
  __device__ static void taps_a(A& a, const uint32_t (&first)[2], const uint32_t (&second)[2],
                                const uint32_t (&ninth)[2]) {
    a[0][0] = first[0], a[0][1] = first[1], a[0][2] = second[0], a[0][3] = second[1];
    a[1][0] = ninth[0], a[1][1] = ninth[1], a[1][2] = 0, a[1][3] = 0;
  }
  __device__ static void taps_b(B& b, uint32_t first, uint32_t second, uint32_t ninth) {
    b[0][0] = first, b[0][1] = second, b[1][0] = ninth, b[1][1] = 0;
  }
  __device__ static void outputs_a(A& a, const uint32_t (&upper)[4], const uint32_t (&lower)[4]) {
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      a[s][0] = upper[2 * s], a[s][1] = lower[2 * s];
      a[s][2] = upper[2 * s + 1], a[s][3] = lower[2 * s + 1];
    }
  }
  __device__ static void outputs_b(B& b, uint32_t value, uint32_t place) {
#pragma unroll
    for (int i = 0; i < 4; ++i) b[i / 2][i % 2] = place == uint32_t(i) ? value : 0;
  }
  __device__ static void multiply(float (&c)[4], const A& a, const B& b) {
#pragma unroll
    for (int s = 0; s < kSteps; ++s)
      MmaTf32::multiply(c[0], c[1], c[2], c[3], a[s], b[s][0], b[s][1]);
  }
};

/// An image's pixels as they are multiplied, zeros outside.
template <class T>
struct DirectPixels {
  const DirectGeometry& g;
  const T* x;
  /// Row and column from the first of the padding on.
  __device__ __forceinline__ uint32_t operator()(int image, int row, int column) const {
    const int h = row - g.d.pad_h, w = column - g.d.pad_w;
    if (!g.all_inside && (uint32_t(h) >= uint32_t(g.d.h) || uint32_t(w) >= uint32_t(g.d.w)))
      return 0;
    return DirectMma<T>::word(x[(size_t(image) * g.d.h + h) * g.d.w + w]);
  }
};

inline constexpr int kDirectMmaFilters = 64, kDirectMmaTiles = kDirectMmaFilters / 8;
/// Of a block in forward, by 16 a warp at a time.
inline constexpr int kDirectMmaWindows = 176;

// blockIdx.x is a run of windows of an image, y one of 64 filters.
// Traffic: y leaves through shared memory, where it lies as in its tensor: whole images, where a block has one.
template <class T, Layout kLayout>
__global__ void __launch_bounds__(kDirectThreads, 4)
    conv2d_direct_mma_forward_kernel(const __grid_constant__ DirectGeometry g, FastDivisor by_runs,
                                     int windows_per_run, const T* __restrict__ x,
                                     const float* __restrict__ w, const float* __restrict__ bias,
                                     T* __restrict__ y, uint32_t* __restrict__ argmax) {
  using Mma = DirectMma<T>;
  constexpr bool kPlanes = kLayout == Layout::kNCHW;
  constexpr int kTaps = 9, kVec = kWidest<T>, kFilters = kDirectMmaFilters;
  extern __shared__ __align__(16) char memory[];
  T* const tile = reinterpret_cast<T*>(memory);
  __shared__ float biases[kFilters];
  const int tid = threadIdx.x, lane = tid % 32, row = lane / 4, of_four = lane % 4;
  const int k0 = blockIdx.y * kFilters, count = min(kFilters, g.d.k - k0);
  int image, run;
  by_runs.divmod(blockIdx.x, image, run);
  const int first = run * windows_per_run, windows = min(windows_per_run, g.windows - first);
  // In the tile, from a filter to the next and from a window.
  const int filter_pitch = kPlanes ? windows : 1, window_pitch = kPlanes ? 1 : kFilters + kVec;
  wait_for_primary();
  if (tid < kFilters) biases[tid] = bias != nullptr && tid < count ? __ldg(bias + k0 + tid) : 0.f;
  typename Mma::B weights[kDirectMmaTiles];
#pragma unroll
  for (int j = 0; j < kDirectMmaTiles; ++j) {
    const int k = j * 8 + row;
    const auto weight = [&](int tap) {
      return k < count ? Mma::rounded(__ldg(w + (k0 + k) * kTaps + tap)) : 0u;
    };
    Mma::taps_b(weights[j], weight(Mma::first_tap(of_four)), weight(Mma::second_tap(of_four)),
                of_four == 0 ? weight(kTaps - 1) : 0u);
  }
  __syncthreads();
  const DirectPixels<T> pixels{g, x};
  for (int window0 = tid / 32 * 16; window0 < windows; window0 += kDirectThreads / 2) {
    typename Mma::A patch[4];
    int upper[2], left[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int window = min(window0 + row + 8 * i, windows - 1);
      g.by_windows_w.divmod(first + window, upper[i], left[i]);
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const auto load = [&](uint32_t(&words)[2], int tap) {
#pragma unroll
        for (int i = 0; i < 2; ++i)
          words[i] = pixels(image, 2 * upper[i] + e / 2 + tap / 3, 2 * left[i] + e % 2 + tap % 3);
      };
      uint32_t first_words[2], second_words[2], ninth[2] = {};
      load(first_words, Mma::first_tap(of_four));
      load(second_words, Mma::second_tap(of_four));
      if (of_four == 0) load(ninth, kTaps - 1);
      Mma::taps_a(patch[e], first_words, second_words, ninth);
    }
#pragma unroll
    for (int j = 0; j < kDirectMmaTiles; ++j) {
      if (j * 8 >= count) break;
      const float2 b = *reinterpret_cast<const float2*>(biases + j * 8 + of_four * 2);
      float sums[4][4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        sums[e][0] = sums[e][2] = b.x, sums[e][1] = sums[e][3] = b.y;
        Mma::multiply(sums[e], patch[e], weights[j]);
      }
      uint32_t codes = 0;  // of both windows, 16 bits each
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int window = window0 + row + 8 * i;
#pragma unroll
        for (int f = 0; f < 2; ++f) {
          const int at = 2 * i + f;
          const PooledValue pooled =
              pool_window(sums[0][at], sums[1][at], sums[2][at], sums[3][at]);
          codes |= pooled.code << (16 * i + 8 * (of_four & 1) + 4 * f);
          if (window < windows)
            tile[(j * 8 + of_four * 2 + f) * filter_pitch + window * window_pitch] =
                T(pooled.value);
        }
      }
      codes |= __shfl_xor_sync(~0u, codes, 1);
      const uint32_t others = __shfl_xor_sync(~0u, codes, 2);
      const int window = window0 + row + 8 * of_four;
      if (of_four < 2 && window < windows)
        argmax[(size_t(image) * argmax_groups(g.d.k) + k0 / 8 + j) * g.windows + first + window] =
            __byte_perm(codes, others, of_four == 0 ? 0x5410 : 0x7632);
    }
  }
  __syncthreads();
  if constexpr (kPlanes) {
    T* const to = y + (size_t(image) * g.d.k + k0) * g.windows + first;
    const int all = count * windows;
    if (windows == g.windows && all % kVec == 0 && size_t(to - y) % kVec == 0) {
      for (int i = tid; i < all / kVec; i += kDirectThreads)
        reinterpret_cast<float4*>(to)[i] = reinterpret_cast<const float4*>(tile)[i];
    } else {
      for (int k = tid / 32; k < count; k += kDirectThreads / 32)
        for (int i = lane; i < windows; i += 32)
          to[size_t(k) * g.windows + i] = tile[k * windows + i];
    }
  } else {
    T* const to = y + (size_t(image) * g.windows + first) * g.d.k + k0;
    if (g.d.k % kVec == 0) {
      const int pieces = count / kVec;
      for (int i = tid; i < windows * pieces; i += kDirectThreads) {
        const int window = i / pieces, at = i % pieces * kVec;
        *reinterpret_cast<float4*>(to + size_t(window) * g.d.k + at) =
            *reinterpret_cast<const float4*>(tile + window * window_pitch + at);
      }
    } else {
      for (int i = tid; i < windows * count; i += kDirectThreads)
        to[size_t(i / count) * g.d.k + i % count] = tile[i / count * window_pitch + i % count];
    }
  }
}

inline constexpr int kDirectMmaFilterWarps = 8;

// blockIdx.x is a split of the windows, y 64 filters. A warp has a run of windows, four at a time.
// partial[split] = dw [filters][taps], then dbias [filters].
template <class T>
__global__ void __launch_bounds__(kDirectMmaFilterWarps * 32, 2)
    conv2d_direct_mma_backward_filter_kernel(const __grid_constant__ DirectGeometry g,
                                             int windows_per_warp, const T* __restrict__ x,
                                             const T* __restrict__ dy,
                                             const uint32_t* __restrict__ argmax,
                                             float* __restrict__ partial) {
  using Mma = DirectMma<T>;
  constexpr int kTaps = 9, kFilters = kDirectMmaFilters, kWarps = kDirectMmaFilterWarps;
  __shared__ float sums_of[kWarps][kTaps + 1][kFilters + 1];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int column = lane / 4, of_four = lane % 4;
  const int k0 = blockIdx.y * kFilters, count = min(kFilters, g.d.k - k0);
  float sums[kDirectMmaTiles][4] = {};
  const DirectPixels<T> pixels{g, x};
  // What comes from DRAM is fetched four windows ahead.
  struct Gradients {
    uint32_t value[kDirectMmaTiles], codes[kDirectMmaTiles];
  };
  const int start = (blockIdx.x * kWarps + warp) * windows_per_warp;
  const int end = min(g.total_windows, start + windows_per_warp);
  const auto fetch = [&](int window) {
    Gradients next;
    int image, in_image;
    g.by_windows.divmod(min(window, g.total_windows - 1), image, in_image);
    const T* const from =
        dy + size_t(image) * g.d.k * g.windows + size_t(in_image) * g.pixel_stride;
    const uint32_t* const places =
        argmax + (size_t(image) * argmax_groups(g.d.k) + k0 / 8) * g.windows + in_image;
#pragma unroll
    for (int j = 0; j < kDirectMmaTiles; ++j) {
      const int k = j * 8 + column;
      const bool inside = window < end && k < count;
      next.value[j] = inside ? Mma::word(from[size_t(k0 + k) * g.filter_stride]) : 0;
      next.codes[j] = inside ? places[j * g.windows] : 0;
    }
    return next;
  };
  wait_for_primary();
  Gradients next;
  if (start < end) next = fetch(start + of_four);
  for (int first = start; first < end; first += 4) {
    const Gradients now = next;
    if (first + 4 < end) next = fetch(first + 4 + of_four);
    int image, in_image, upper, left;
    g.by_windows.divmod(min(first + of_four, g.total_windows - 1), image, in_image);
    g.by_windows_w.divmod(in_image, upper, left);
    uint32_t eight[4], others[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int above = 2 * upper + e / 2, before = 2 * left + e % 2;
      eight[e] = pixels(image, above + column / 3, before + column % 3);
      others[e] = column == 0 ? pixels(image, above + 2, before + 2) : column == 1 ? Mma::kOne : 0;
    }
    typename Mma::A patch;
    Mma::outputs_a(patch, eight, others);
#pragma unroll
    for (int j = 0; j < kDirectMmaTiles; ++j) {
      typename Mma::B gradient;
      Mma::outputs_b(gradient, now.value[j], now.codes[j] >> 4 * column & 15);
      Mma::multiply(sums[j], patch, gradient);
    }
  }
#pragma unroll
  for (int j = 0; j < kDirectMmaTiles; ++j) {
#pragma unroll
    for (int f = 0; f < 2; ++f) {
      const int k = j * 8 + of_four * 2 + f;
      sums_of[warp][column][k] = sums[j][f];
      if (column < 2) sums_of[warp][8 + column][k] = sums[j][2 + f];
    }
  }
  __syncthreads();
  float* const out = partial + size_t(blockIdx.x) * g.d.k * (kTaps + 1);
  for (int i = threadIdx.x; i < count * (kTaps + 1); i += kWarps * 32) {
    const int k = i / (kTaps + 1), tap = i % (kTaps + 1);
    float total = 0.f;
#pragma unroll
    for (int from = 0; from < kWarps; ++from) total += sums_of[from][tap][k];
    out[tap < kTaps ? (k0 + k) * kTaps + tap : g.d.k * kTaps + k0 + k] = total;
  }
}

/// Whether there is a kernel for it here.
inline bool direct_mma_possible(const Conv2dProblem& d) {
  return d.math != Math::kFP32 && d.c == 1 && d.r == 3 && d.s == 3 && gpu_available() &&
         gpu_attribute(cudaDevAttrComputeCapabilityMajor) >= 8;
}

/// x, y and dy are stored as T. REQUIRES: direct_mma_possible(), and what direct_unsupported() asks for.
template <class T>
class DirectMmaConvolution {
 public:
  explicit DirectMmaConvolution(const Conv2dProblem& problem)
      : geometry_(problem, true), groups_(ceil_div(problem.k, kDirectMmaFilters)) {
    const int multiprocessors = multiprocessor_count();
    // Two blocks a multiprocessor at least, and whole images where there are so many.
    const int most = std::min(round_up(geometry_.windows, 16), kDirectMmaWindows);
    const int wanted = ceil_div(2 * multiprocessors, problem.n * groups_);
    windows_per_run_ =
        std::clamp(round_up(ceil_div(geometry_.windows, wanted), kDirectThreads / 2), 16, most);
    runs_ = ceil_div(geometry_.windows, windows_per_run_);

    constexpr int kFewest = 16;  // windows of a warp
    const int blocks = std::clamp(geometry_.total_windows / (kFewest * kDirectMmaFilterWarps), 1,
                                  2 * multiprocessors);
    windows_per_warp_ =
        round_up(ceil_div(geometry_.total_windows, blocks * kDirectMmaFilterWarps), 4);
    splits_ = ceil_div(geometry_.total_windows, windows_per_warp_ * kDirectMmaFilterWarps);
  }

  void forward(const T* x, const float* w, const float* b, T* y, uint32_t* argmax,
               cudaStream_t stream) const {
    const bool planes = geometry_.d.layout == Layout::kNCHW;
    const int windows = std::min(windows_per_run_, geometry_.windows);
    const int pitch = planes ? kDirectMmaFilters : kDirectMmaFilters + kWidest<T>;
    launch_following(
        {dim3(geometry_.d.n * runs_, groups_), kDirectThreads, sizeof(T) * windows * pitch, stream},
        planes ? conv2d_direct_mma_forward_kernel<T, Layout::kNCHW>
               : conv2d_direct_mma_forward_kernel<T, Layout::kNHWC>,
        geometry_, FastDivisor(runs_), windows_per_run_, x, w, b, y, argmax);
  }

  size_t backward_filter_workspace_bytes() const {
    return sizeof(float) * splits_ * partial_floats();
  }
  /// `db` may be nullptr.
  void backward_filter(const T* x, const T* dy, const uint32_t* argmax, float* dw, float* db,
                       void* workspace, cudaStream_t stream) const {
    float* const partial = static_cast<float*>(workspace);
    launch_following({dim3(splits_, groups_), kDirectMmaFilterWarps * 32, 0, stream},
                     conv2d_direct_mma_backward_filter_kernel<T>, geometry_, windows_per_warp_, x,
                     dy, argmax, partial);
    launch_reduce_splits(partial, splits_, partial_floats(), partial_floats(), geometry_.d.k * 9,
                         dw, db, stream);
  }

  std::string text(Pass pass) const {
    constexpr const char* kText = std::is_same_v<T, float> ? MmaTf32::kText : MmaBf16::kText;
    if (pass == Pass::kForward) {
      return std::to_string(windows_per_run_) + " windows of 2x2 x 64 filters a block" + kText;
    }
    return "64 filters, " + std::to_string(splits_) + " splits" + kText;
  }

 private:
  int partial_floats() const { return geometry_.d.k * 10; }

  const DirectGeometry geometry_;
  const int groups_;
  int windows_per_run_ = 16, runs_ = 1, windows_per_warp_ = 4, splits_ = 1;
};

}  // namespace duet
