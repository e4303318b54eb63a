// custom_direct behind a pooling in bf16, and its backward_filter in tf32, with one channel and 3x3 filters: the nine taps are the terms of one mma.sync
// (kernels/mma_tile.cuh), and a window's four outputs four of its sums in one thread, as in direct_forward.cuh.
//
// In forward rows of the instruction are windows, of which an instruction computes one of the four outputs, columns are
// filters, and terms taps. In backward_filter rows are taps and a one, whose products with dy are the bias' gradient, columns
// filters, and terms the four outputs of as many windows: a thread makes them of one dy and the place of the largest.
#pragma once

#include <algorithm>

#include "kernels/bulk_copy.cuh"
#include "kernels/mma_tile.cuh"
#include "kernels/rasters.cuh"
#include "kernels/split_reduction.cuh"
#include "layers/conv2d/direct_forward.cuh"

namespace duet {

/// Operands of an instruction, in tf32 of two, from words of lane l, which holds rows l/4 and l/4 + 8 of A, column l/4 of B,
/// and terms by l%4.
template <class T>
struct DirectMma;

template <>
struct DirectMma<bfloat16> {
  using A = uint32_t[4];
  using B = uint32_t[2];
  static constexpr uint32_t kOne = 0x3f80;
  /// A lane's two of the first eight taps.
  __device__ static int first_tap(int of_four) { return 2 * of_four; }
  __device__ static int second_tap(int of_four) { return 2 * of_four + 1; }
  __device__ static uint32_t word(bfloat16 value) { return value.bits; }
  __device__ static uint32_t rounded(float value) { return bfloat16(value).bits; }
  /// Taps of both rows, and the ninth or zeros.
  __device__ static void taps_a(A& a, const uint32_t (&first)[2], const uint32_t (&second)[2],
                                const uint32_t (&ninth)[2]) {
    a[0] = first[0] | second[0] << 16, a[1] = first[1] | second[1] << 16;
    a[2] = ninth[0], a[3] = ninth[1];
  }
  __device__ static void taps_b(B& b, uint32_t first, uint32_t second, uint32_t ninth) {
    b[0] = first | second << 16, b[1] = ninth;
  }
  /// The outputs of a window of both rows.
  __device__ static void outputs_a(A& a, const uint32_t (&upper)[4], const uint32_t (&lower)[4]) {
    a[0] = upper[0] | upper[1] << 16, a[1] = lower[0] | lower[1] << 16;
    a[2] = upper[2] | upper[3] << 16, a[3] = lower[2] | lower[3] << 16;
  }
  __device__ static void outputs_b(B& b, uint32_t value, uint32_t place) {
    const uint32_t there = value << 16 * (place & 1), half = place >> 1;
    b[0] = half == 0 ? there : 0, b[1] = half == 1 ? there : 0;
  }
  __device__ static void multiply(float (&c)[4], const A& a, const B& b) {
    MmaBf16::multiply(c[0], c[1], c[2], c[3], a, b[0], b[1]);
  }
};

template <>
struct DirectMma<float> {
  using A = uint32_t[2][4];
  using B = uint32_t[2][2];
  static constexpr uint32_t kOne = 0x3f800000;
  __device__ static uint32_t word(float value) { return __float_as_uint(tf32_rounded(value)); }
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
    for (int s = 0; s < 2; ++s) MmaTf32::multiply(c[0], c[1], c[2], c[3], a[s], b[s][0], b[s][1]);
  }
};

/// An image's pixels as they are multiplied, zeros outside.
template <class T>
struct DirectPixels {
  const DirectGeometry& g;
  const T* x;  // in global or shared memory
  /// Row and column from the first of the padding on.
  __device__ __forceinline__ uint32_t operator()(int image, int row, int column) const {
    const int h = row - g.d.pad_h, w = column - g.d.pad_w;
    if (!g.all_inside && (uint32_t(h) >= uint32_t(g.d.h) || uint32_t(w) >= uint32_t(g.d.w)))
      return 0;
    return DirectMma<T>::word(x[(size_t(image) * g.d.h + h) * g.d.w + w]);
  }
};

inline constexpr int kDirectMmaFilters = 64, kDirectMmaTiles = kDirectMmaFilters / 8;
/// Of a run in forward, by 16 a warp at a time, at most.
inline constexpr int kDirectMmaWindows = 176;

/// Forward: how images are cut into runs of windows, and what a block keeps of one in shared memory: y as it is stored,
/// and x with its padding, which all patches lie within.
struct DirectMmaRuns {
  int runs, windows;         // of an image, of a run
  int y_elements;            // of a block
  int pixels_pitch, pixels;  // of x
  FastDivisor by_runs, by_pitch;

  explicit DirectMmaRuns(const DirectGeometry& g) {
    // Fewer a run where runs are too few for the GPU, but some for each warp.
    const int wanted =
        ceil_div(2 * multiprocessor_count(), g.d.n * ceil_div(g.d.k, kDirectMmaFilters));
    const int most = std::min(wanted, ceil_div(g.windows, kDirectThreads / 2));
    windows =
        round_up(ceil_div(g.windows, std::max(ceil_div(g.windows, kDirectMmaWindows), most)), 16);
    runs = ceil_div(g.windows, windows);
    const bool planes = g.d.layout == Layout::kNCHW;
    y_elements = round_up(std::min(windows, g.windows) *
                              (planes ? kDirectMmaFilters : kDirectMmaFilters + kWidest<bfloat16>),
                          kWidest<bfloat16>);
    pixels_pitch = 2 * g.windows_w + 2;
    const int more_rows = std::min(g.windows_h - 1, (windows + g.windows_w - 2) / g.windows_w);
    pixels = (2 * more_rows + 4) * pixels_pitch;
    by_runs = FastDivisor(runs), by_pitch = FastDivisor(pixels_pitch);
  }
  /// The last two elements are zeros.
  size_t shared_bytes() const { return sizeof(bfloat16) * (y_elements + pixels + 2); }
};

/// NaN if there is one.
__device__ __forceinline__ float largest(float a, float b) {
  float most;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(a), "f"(b));
  return most;
}
/// relu of both, rounded, `low` in the lower half.
__device__ __forceinline__ uint32_t clipped_pair(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.relu.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

// blockIdx.x is a run of windows of an image, y one of 64 filters. In inference argmax is not kept, and looking for it would
// be a third of the instructions.
// Traffic: x through shared memory; y leaves through it, where it lies as in its tensor: whole images, where a run is one.
template <Layout kLayout, bool kKeepsArgmax>
__global__ void __launch_bounds__(kDirectThreads, 6)
    conv2d_direct_mma_forward_kernel(const __grid_constant__ DirectGeometry g,
                                     const __grid_constant__ DirectMmaRuns part,
                                     const bfloat16* __restrict__ x, const float* __restrict__ w,
                                     const float* __restrict__ bias, bfloat16* __restrict__ y,
                                     uint32_t* __restrict__ argmax) {
  using T = bfloat16;
  using Mma = DirectMma<T>;
  constexpr bool kPlanes = kLayout == Layout::kNCHW;
  constexpr int kTaps = 9, kVec = kWidest<T>, kFilters = kDirectMmaFilters;
  constexpr int kWarps = kDirectThreads / 32;
  extern __shared__ __align__(16) char memory[];
  T* const tile = reinterpret_cast<T*>(memory);
  T* const pixels = tile + part.y_elements;
  T* const zeros = pixels + part.pixels;
  __shared__ uint2 weights[kDirectMmaTiles][32];  // of eight filters, of a lane
  const int tid = threadIdx.x, lane = tid % 32, row = lane / 4, of_four = lane % 4;
  const int k0 = blockIdx.y * kFilters, count = min(kFilters, g.d.k - k0);
  const int tiles = ceil_div(count, 8), pitch = part.pixels_pitch;
  int image, run;
  part.by_runs.divmod(blockIdx.x, image, run);
  const int first = run * part.windows, windows = min(part.windows, g.windows - first);
  int upper0, last_upper, unused;
  g.by_windows_w.divmod(first, upper0, unused);
  g.by_windows_w.divmod(first + windows - 1, last_upper, unused);
  if (tid < 2) zeros[tid] = T(0.f);
  wait_for_primary();
  const int needed = (2 * (last_upper - upper0) + 4) * pitch;
#pragma unroll 4
  for (int i = tid; i < needed; i += kDirectThreads) {
    int h, column;
    part.by_pitch.divmod(i, h, column);
    h += 2 * upper0 - g.d.pad_h, column -= g.d.pad_w;
    const bool inside = uint32_t(h) < uint32_t(g.d.h) && uint32_t(column) < uint32_t(g.d.w);
    pixels[i] = inside ? x[(size_t(image) * g.d.h + h) * g.d.w + column] : T(0.f);
  }
  for (int j = tid / 32; j < tiles; j += kWarps) {
    const int k = j * 8 + row;
    const auto weight = [&](int tap) {
      return k < count ? Mma::rounded(__ldg(w + (k0 + k) * kTaps + tap)) : 0u;
    };
    Mma::B words;
    Mma::taps_b(words, weight(Mma::first_tap(of_four)), weight(Mma::second_tap(of_four)),
                of_four == 0 ? weight(kTaps - 1) : 0u);
    // The bias, in three parts that sum to it, is of three further terms, whose pixels are ones.
    const float b = bias != nullptr && k < count ? __ldg(bias + k0 + k) : 0.f;
    const bfloat16 upper = bfloat16(b);
    const float rest = isfinite(float(upper)) ? b - float(upper) : 0.f;
    const bfloat16 middle = bfloat16(rest);
    if (of_four == 0) words[1] |= uint32_t(upper.bits) << 16;
    if (of_four == 1) words[1] = middle.bits | uint32_t(bfloat16(rest - float(middle)).bits) << 16;
    weights[j][lane] = {words[0], words[1]};
  }
  const uint32_t ones = of_four == 0 ? 0x3f800000 : of_four == 1 ? 0x3f803f80 : 0;
  // In the tile, from a filter to the next and from a window.
  const int filter_pitch = kPlanes ? windows : 1, window_pitch = kPlanes ? 1 : kFilters + kVec;
  int clear;
  asm("mov.u32 %0, 0xfffffff8;" : "=r"(clear));
  const auto tap_at = [&](int tap) { return tap / 3 * pitch + tap % 3; };
  const int first_at = tap_at(Mma::first_tap(of_four)),
            second_at = tap_at(Mma::second_tap(of_four));
  __syncthreads();
  for (int window0 = tid / 32 * 16; window0 < windows; window0 += kWarps * 16) {
    const T* corner[2];
    const T* ninth_from[2];  // zeros in lanes that have none
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      int upper, left;
      g.by_windows_w.divmod(first + min(window0 + row + 8 * i, windows - 1), upper, left);
      corner[i] = pixels + 2 * (upper - upper0) * pitch + 2 * left;
      ninth_from[i] = of_four == 0 ? corner[i] + tap_at(kTaps - 1) : zeros;
    }
    const int ninth_pitch = of_four == 0 ? pitch : 0;
    Mma::A patch[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      uint32_t first_words[2], second_words[2], ninth[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const T* const from = corner[i] + e / 2 * pitch + e % 2;
        first_words[i] = from[first_at].bits, second_words[i] = from[second_at].bits;
        ninth[i] = ninth_from[i][e / 2 * ninth_pitch + e % 2].bits;
      }
      Mma::taps_a(patch[e], first_words, second_words, ninth);
      patch[e][2] |= ones, patch[e][3] |= ones;
    }
    const int codes_window = window0 + row + 8 * of_four;
    const bool has_codes = of_four < 2 && codes_window < windows;
    bool inside[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) inside[i] = window0 + row + 8 * i < windows;
    // Returns whether a sum is infinite or none, where only `kExactly` gives what it should.
    const auto pool_tiles = [&](auto exactly) {
      constexpr bool kExactly = decltype(exactly)::value;
      T* to = tile + of_four * 2 * filter_pitch + (window0 + row) * window_pitch;
      uint32_t* codes_to = argmax + (size_t(image) * argmax_groups(g.d.k) + k0 / 8) * g.windows +
                           first + codes_window;
      bool unordered = false;
#pragma unroll(kExactly ? 1 : kDirectMmaTiles)
      for (int j = 0; j < kDirectMmaTiles; ++j) {
        if (j >= tiles) break;
        const uint2 words = weights[j][lane];
        float sums[4][4] = {};
#pragma unroll
        for (int e = 0; e < 4; ++e) Mma::multiply(sums[e], patch[e], Mma::B{words.x, words.y});
        if constexpr (!kKeepsArgmax) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const auto pooled = [&](int of) {
              return largest(largest(sums[0][of], sums[1][of]), largest(sums[2][of], sums[3][of]));
            };
            const uint32_t pair = clipped_pair(pooled(2 * i), pooled(2 * i + 1));
            T* const window_to = to + 8 * i * window_pitch;
            if (!inside[i]) continue;
            if constexpr (kPlanes) {
              window_to[0].bits = uint16_t(pair), window_to[filter_pitch].bits = pair >> 16;
            } else {
              *reinterpret_cast<uint32_t*>(window_to) = pair;
            }
          }
        } else {
          MarkedValue most[2][2];  // of both windows and of two filters
#pragma unroll
          for (int at = 0; at < 4; ++at) {
            MarkedValue& value = most[at / 2][at % 2];
            value = kExactly
                        ? marked(pool_window(sums[0][at], sums[1][at], sums[2][at], sums[3][at]))
                        : largest_marked(sums[0][at], sums[1][at], sums[2][at], sums[3][at], clear);
            unordered |= value.is_unordered();
          }
#pragma unroll
          for (int i = 0; i < 2; ++i)
            if (inside[i]) {
              to[8 * i * window_pitch] = T(most[i][0].value());
              to[8 * i * window_pitch + filter_pitch] = T(most[i][1].value());
            }
          uint32_t marks = packed_marks(most) << 8 * (of_four & 1);
          marks |= __shfl_xor_sync(~0u, marks, 1);
          const uint32_t others = __shfl_xor_sync(~0u, marks, 2);
          if (has_codes)
            *codes_to = codes_of_marks(__byte_perm(marks, others, of_four == 0 ? 0x5410 : 0x7632));
          codes_to += g.windows;
        }
        to += 8 * filter_pitch;
      }
      return unordered;
    };
    if (__any_sync(~0u, pool_tiles(std::false_type())) && kKeepsArgmax)
      pool_tiles(std::true_type());
  }
  __syncthreads();
  if constexpr (kPlanes) {
    T* const to = y + (size_t(image) * g.d.k + k0) * g.windows + first;
    const int all = count * windows;
    if (windows == g.windows && all % kVec == 0 && size_t(to - y) % kVec == 0) {
      for (int i = tid; i < all / kVec; i += kDirectThreads)
        reinterpret_cast<float4*>(to)[i] = reinterpret_cast<const float4*>(tile)[i];
    } else {
      for (int k = tid / 32; k < count; k += kWarps)
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

/// What a block of backward_filter has of an image: so many bytes of dy and of argmax, of 64 filters, and of x.
template <class T>
struct DirectMmaImage {
  static constexpr int kStages = std::is_same_v<T, float> ? 2 : 3;
  int dy, argmax, x;
  explicit DirectMmaImage(const DirectGeometry& g)
      : dy(kDirectMmaFilters * g.windows * int(sizeof(T))),
        argmax(kDirectMmaTiles * g.windows * int(sizeof(uint32_t))),
        x(g.d.h * g.d.w * int(sizeof(T))) {}
  __host__ __device__ int bytes() const { return round_up(dy + argmax + x, 16); }
};

// blockIdx.x is a split of the images, y 64 filters. A block's warps share an image's windows, four at a time, which the copy
// engine brings some images ahead.
// partial[split] = dw [filters][taps], then dbias [filters].
template <class T>
__global__ void __launch_bounds__(kDirectMmaFilterWarps * 32, 2)
    conv2d_direct_mma_backward_filter_kernel(const __grid_constant__ DirectGeometry g,
                                             const __grid_constant__ DirectMmaImage<T> part,
                                             const T* x, const T* dy, const uint32_t* argmax,
                                             float* __restrict__ partial) {
  using Mma = DirectMma<T>;
  constexpr int kTaps = 9, kFilters = kDirectMmaFilters, kWarps = kDirectMmaFilterWarps;
  constexpr int kStages = DirectMmaImage<T>::kStages;
  extern __shared__ __align__(16) char memory[];
  __shared__ CopyBarrier full[kStages];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int column = lane / 4, of_four = lane % 4, k0 = blockIdx.y * kFilters;
  if (threadIdx.x == 0)
    for (CopyBarrier& barrier : full) barrier.init();
  __syncthreads();
  const int images = ceil_div(g.d.n - int(blockIdx.x), int(gridDim.x));
  const auto fetch = [&](int number) {
    const int stage = number % kStages;
    const size_t image = blockIdx.x + size_t(number) * gridDim.x;
    char* const to = memory + stage * part.bytes();
    const auto copy = [&](char* shared, const void* from, int bytes) {
      bulk_copy(reinterpret_cast<float*>(shared), static_cast<const float*>(from), bytes,
                full[stage]);
    };
    full[stage].expect(part.dy + part.argmax + part.x);
    copy(to, dy + (image * g.d.k + k0) * g.windows, part.dy);
    copy(to + part.dy, argmax + (image * argmax_groups(g.d.k) + k0 / 8) * g.windows, part.argmax);
    copy(to + part.dy + part.argmax, x + image * g.d.h * g.d.w, part.x);
  };
  wait_for_primary();
  if (threadIdx.x == 0)
    for (int i = 0; i < min(kStages, images); ++i) fetch(i);
  float sums[kDirectMmaTiles][4] = {};
  for (int number = 0; number < images; ++number) {
    const int stage = number % kStages;
    full[stage].wait(number / kStages);
    const char* const from = memory + stage * part.bytes();
    const auto* const gradients = reinterpret_cast<const T*>(from);
    const auto* const places = reinterpret_cast<const uint32_t*>(from + part.dy);
    const DirectPixels<T> pixels{g, reinterpret_cast<const T*>(from + part.dy + part.argmax)};
    for (int first = warp * 4; first < g.windows; first += kWarps * 4) {
      const bool inside = first + of_four < g.windows;
      const int window = inside ? first + of_four : 0;
      int upper, left;
      g.by_windows_w.divmod(window, upper, left);
      uint32_t eight[4], others[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int above = 2 * upper + e / 2, before = 2 * left + e % 2;
        eight[e] = pixels(0, above + column / 3, before + column % 3);
        others[e] = column == 0 ? pixels(0, above + 2, before + 2) : column == 1 ? Mma::kOne : 0;
      }
      typename Mma::A patch;
      Mma::outputs_a(patch, eight, others);
#pragma unroll
      for (int j = 0; j < kDirectMmaTiles; ++j) {
        const uint32_t value =
            Mma::word(gradients[(j * 8 + column) * g.filter_stride + window * g.pixel_stride]);
        const uint32_t place = places[j * g.windows + window] >> 4 * column & 15;
        typename Mma::B gradient;
        Mma::outputs_b(gradient, inside ? value : 0, place);
        Mma::multiply(sums[j], patch, gradient);
      }
    }
    __syncthreads();  // nobody reads the stage any more
    if (threadIdx.x == 0 && number + kStages < images) fetch(number + kStages);
  }
  // Where images were; a stage is larger.
  auto& sums_of = *reinterpret_cast<float(*)[kWarps][kTaps + 1][kFilters + 1]>(memory);
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
  for (int i = threadIdx.x; i < kFilters * (kTaps + 1); i += kWarps * 32) {
    const int k = i / (kTaps + 1), tap = i % (kTaps + 1);
    float total = 0.f;
#pragma unroll
    for (int of = 0; of < kWarps; ++of) total += sums_of[of][tap][k];
    out[tap < kTaps ? (k0 + k) * kTaps + tap : g.d.k * kTaps + k0 + k] = total;
  }
}

/// Whether kernels here can be had, which pay where there are many windows.
inline bool direct_mma_possible(const Conv2dProblem& d) {
  return d.math != Math::kFP32 && d.c == 1 && d.r == 3 && d.s == 3 && gpu_available() &&
         gpu_attribute(cudaDevAttrComputeCapabilityMajor) >= 8 &&
         int64_t{d.n} * (d.p / 2) * (d.q / 2) >= 1 << 16;
}
/// And for forward, which has no more of an image in shared memory than any GPU gives.
inline bool direct_mma_forward_possible(const Conv2dProblem& d) {
  constexpr size_t kMostShared = 46 * 1024;
  return direct_mma_possible(d) &&
         DirectMmaRuns(DirectGeometry(d, true)).shared_bytes() <= kMostShared;
}
/// And for backward_filter, whose copies are whole 16 bytes of neighbours in memory.
template <class T>
bool direct_mma_filter_possible(const Conv2dProblem& d) {
  if (!direct_mma_possible(d)) return false;
  const DirectMmaImage<T> part{DirectGeometry(d, true)};
  return (d.layout == Layout::kNCHW ? d.k % kDirectMmaFilters == 0 : d.k == kDirectMmaFilters) &&
         part.x % 16 == 0 && part.bytes() >= 21 * 1024 && part.bytes() <= 64 * 1024 &&
         !bulk_copies_unsupported(conv2d_direct_mma_backward_filter_kernel<T>,
                                  DirectMmaImage<T>::kStages * part.bytes());
}

/// `argmax` is nullptr in inference. REQUIRES: direct_mma_forward_possible(), and what direct_unsupported() asks for.
inline void launch_direct_mma_forward(const DirectGeometry& g, const bfloat16* x, const float* w,
                                      const float* b, bfloat16* y, uint32_t* argmax,
                                      cudaStream_t stream) {
  const DirectMmaRuns part(g);
  const int groups = ceil_div(g.d.k, kDirectMmaFilters);
  const bool planes = g.d.layout == Layout::kNCHW;
  const auto kernel_of = [planes](auto keeps) {
    constexpr bool kKeeps = decltype(keeps)::value;
    return planes ? conv2d_direct_mma_forward_kernel<Layout::kNCHW, kKeeps>
                  : conv2d_direct_mma_forward_kernel<Layout::kNHWC, kKeeps>;
  };
  launch_following({dim3(g.d.n * part.runs, groups), kDirectThreads, part.shared_bytes(), stream},
                   argmax ? kernel_of(std::true_type()) : kernel_of(std::false_type()), g, part, x,
                   w, b, y, argmax);
}

/// backward_filter. REQUIRES: direct_mma_filter_possible().
template <class T>
class DirectMmaFilter {
 public:
  explicit DirectMmaFilter(const Conv2dProblem& problem)
      : geometry_(problem, true),
        groups_(ceil_div(problem.k, kDirectMmaFilters)),
        image_(geometry_),
        splits_(ceil_div(problem.n, ceil_div(problem.n * groups_, 2 * multiprocessor_count()))) {}

  size_t workspace_bytes() const { return sizeof(float) * splits_ * partial_floats(); }
  /// `db` may be nullptr.
  void run(const T* x, const T* dy, const uint32_t* argmax, float* dw, float* db, void* workspace,
           cudaStream_t stream) const {
    float* const partial = static_cast<float*>(workspace);
    const auto kernel = conv2d_direct_mma_backward_filter_kernel<T>;
    const int bytes = DirectMmaImage<T>::kStages * image_.bytes();
    DUET_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    launch_following({dim3(splits_, groups_), kDirectMmaFilterWarps * 32, size_t(bytes), stream},
                     kernel, geometry_, image_, x, dy, argmax, partial);
    launch_reduce_splits(partial, splits_, partial_floats(), partial_floats(), geometry_.d.k * 9,
                         dw, db, stream);
  }
  std::string text() const {
    return "64 filters, " + std::to_string(splits_) + " splits" +
           (std::is_same_v<T, float> ? MmaTf32::kText : MmaBf16::kText);
  }

 private:
  int partial_floats() const { return geometry_.d.k * 10; }

  const DirectGeometry geometry_;
  const int groups_;
  const DirectMmaImage<T> image_;
  const int splits_;
};

}  // namespace duet
