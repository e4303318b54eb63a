// custom_direct behind a pooling on tensor cores, forward, with one channel and 3x3 filters: the nine taps are terms of mma.sync
// (kernels/mma_tile.cuh), and a window's four outputs four of its sums in one thread, as in direct_forward.cuh. Rows of the
// instruction are filters and columns windows, of which an instruction computes one of the four outputs.
#pragma once

#include <algorithm>

#include "kernels/bulk_copy.cuh"
#include "kernels/mma_tile.cuh"
#include "kernels/tf32.cuh"
#include "layers/conv2d/small_channels/direct_forward.cuh"

namespace duet {

inline constexpr int kDirectMmaFilters = 64;

/// What lane l holds of operands: rows l/4 and l/4 + 8 of A, column l/4 of B, and terms by of_four = l%4. T is as x and y are
/// stored; float32 is multiplied in kParts parts, of one in tf32, of three as StoredMma3xTf32 tells. Besides taps a sum has
/// the bias, in three parts that sum to it, whose pixels are ones: sums begin at zero, which is no instruction.
template <class T, int kParts>
struct DirectTaps;

template <>
struct DirectTaps<bfloat16, 1> {
  static constexpr int kSets = 1;  // of operands
  static constexpr int kWarps = 8;
  static constexpr const char* kText = MmaBf16::kText;
  /// A lane's taps; beside them the ninth, or none, of a plane.
  __device__ static int first_tap(int of_four) { return 2 * of_four; }
  __device__ static int second_tap(int of_four) { return 2 * of_four + 1; }
  __device__ static int ninth_plane(int of_four) { return of_four == 0 ? 0 : -1; }

  /// Of a filter.
  template <class Weight>
  __device__ static void weights(uint2 (&a)[kSets], int of_four, Weight weight, float bias) {
    const bfloat16 upper = bfloat16(bias);
    const float rest = isfinite(float(upper)) ? bias - float(upper) : 0.f;
    const bfloat16 middle = bfloat16(rest);
    const auto word = [&](int tap) { return uint32_t(bfloat16(weight(tap)).bits); };
    a[0] = {word(first_tap(of_four)) | word(second_tap(of_four)) << 16, 0};
    if (of_four == 0) a[0].y = word(8) | uint32_t(upper.bits) << 16;
    if (of_four == 1) a[0].y = middle.bits | uint32_t(bfloat16(rest - float(middle)).bits) << 16;
  }
  __device__ static void put(bfloat16* pixels, int, bfloat16 value) { *pixels = value; }
  /// Of a window the pixels under the lane's taps, and the ninth.
  __device__ __forceinline__ static void patch(uint2 (&b)[kSets], int of_four,
                                               const bfloat16* pixels, int, int first, int second,
                                               int ninth) {
    const uint32_t ones = of_four == 0 ? 0x3f800000 : of_four == 1 ? 0x3f803f80 : 0;
    b[0] = {pixels[first].bits | uint32_t(pixels[second].bits) << 16, pixels[ninth].bits | ones};
  }
  __device__ __forceinline__ static void multiply(float (&c)[4], const uint4 (&a)[kSets],
                                                  const uint2 (&b)[kSets]) {
    MmaBf16::multiply(c[0], c[1], c[2], c[3], {a[0].x, a[0].y, a[0].z, a[0].w}, b[0].x, b[0].y);
  }
};

/// A float32 number in parts of tf32: a set of taps' heads, one of the ninth and the bias, and one of taps' rests.
template <int kParts>
struct DirectTaps<float, kParts> {
  static constexpr int kSets = kParts == 1 ? 2 : 3;
  static constexpr int kWarps = kParts == 1 ? 8 : 6;
  static constexpr const char* kText = kParts == 1 ? MmaTf32::kText : StoredMma3xTf32::kText;
  __device__ static int first_tap(int of_four) { return of_four; }
  __device__ static int second_tap(int of_four) { return of_four + 4; }
  __device__ static int ninth_plane(int of_four) {
    return of_four == 0 || (kParts == 3 && of_four == 1) ? 0 : kParts == 3 && of_four == 2 ? 1 : -1;
  }

  __device__ static float rest(float value) { return tf32_rounded(value - tf32_rounded(value)); }
  template <class Weight>
  __device__ static void weights(uint2 (&a)[kSets], int of_four, Weight weight, float bias) {
    const auto head_word = [](float value) { return __float_as_uint(tf32_rounded(value)); };
    const auto rest_word = [](float value) { return __float_as_uint(rest(value)); };
    const float upper = tf32_rounded(bias);
    const float after = isfinite(upper) ? bias - upper : 0.f;
    a[0] = {head_word(weight(first_tap(of_four))), head_word(weight(second_tap(of_four)))};
    a[1] = {};
    if (of_four == 0) a[1] = {head_word(weight(8)), __float_as_uint(upper)};
    if (of_four == 1) a[1].y = head_word(after);
    if (of_four == 2) a[1].y = rest_word(after);
    if constexpr (kParts == 3) {
      if (of_four == 1) a[1].x = rest_word(weight(8));
      if (of_four == 2) a[1].x = head_word(weight(8));
      a[2] = {rest_word(weight(first_tap(of_four))), rest_word(weight(second_tap(of_four)))};
    }
  }
  /// Rests lie in a second plane.
  __device__ static void put(float* pixels, int plane, float value) {
    pixels[0] = tf32_rounded(value);
    if constexpr (kParts == 3) pixels[plane] = rest(value);
  }
  __device__ __forceinline__ static void patch(uint2 (&b)[kSets], int, const float* pixels,
                                               int plane, int first, int second, int ninth) {
    const auto word = [&](int at) { return __float_as_uint(pixels[at]); };
    b[0] = {word(first), word(second)};
    b[1] = {word(ninth), 0x3f800000};
    if constexpr (kParts == 3) b[2] = {word(plane + first), word(plane + second)};
  }
  __device__ __forceinline__ static void multiply(float (&c)[4], const uint4 (&a)[kSets],
                                                  const uint2 (&b)[kSets]) {
    const auto add = [&](const uint4& of_a, const uint2& of_b) {
      MmaTf32::multiply(c[0], c[1], c[2], c[3], {of_a.x, of_a.y, of_a.z, of_a.w}, of_b.x, of_b.y);
    };
    if constexpr (kParts == 3) add(a[2], b[0]), add(a[0], b[2]);
    add(a[1], b[1]), add(a[0], b[0]);
  }
};

/// Of a run, by eight a warp at a time, at most.
inline constexpr int kDirectMmaWindows = 176;

/// How images are cut into runs of windows, and what a block keeps of one in shared memory: y as it is stored, and x with its
/// padding, which all patches lie within.
struct DirectMmaRuns {
  int runs, windows;         // of an image, of a run
  int y_bytes;               // of a block
  int pixels_pitch, pixels;  // of x
  int clear = ~7;            // see largest_marked()
  FastDivisor by_runs, by_pitch;

  DirectMmaRuns(const DirectGeometry& g, int element_bytes) {
    // Fewer a run where runs are too few for the GPU, but some for each warp.
    const int wanted =
        ceil_div(2 * multiprocessor_count(), g.d.n * ceil_div(g.d.k, kDirectMmaFilters));
    const int most = std::min(wanted, ceil_div(g.windows, kDirectThreads / 2));
    windows =
        round_up(ceil_div(g.windows, std::max(ceil_div(g.windows, kDirectMmaWindows), most)), 16);
    runs = ceil_div(g.windows, windows);
    const bool planes = g.d.layout == Layout::kNCHW;
    y_bytes = round_up(
        std::min(windows, g.windows) * (kDirectMmaFilters * element_bytes + (planes ? 0 : 16)), 16);
    pixels_pitch = 2 * g.windows_w + 2;
    const int more_rows = std::min(g.windows_h - 1, (windows + g.windows_w - 2) / g.windows_w);
    pixels = (2 * more_rows + 4) * pixels_pitch;
    by_runs = FastDivisor(runs), by_pitch = FastDivisor(pixels_pitch);
  }
};

/// A window's largest as it is stored in T, and the codes of eight filters. Filters come by numbers known at compile time. Where
/// value() has seen an infinite sum or none, only kExactly gives what it should.
template <class T>
struct DirectPool {
  static constexpr int kOrdered = kInfinite;  // the most
  uint32_t codes = 0;
  template <bool kExactly>
  __device__ __forceinline__ float value(float v0, float v1, float v2, float v3, int filter, int,
                                         int& most) {
    if constexpr (kExactly) {
      const PooledValue pooled = pool_window(v0, v1, v2, v3);
      codes |= pooled.code << 4 * filter;
      return pooled.value;
    }
    const int bits = pool_ordered(v0, v1, v2, v3, 1u << 4 * filter, codes);
    most = max(most, bits);
    return __int_as_float(bits);
  }
  __device__ __forceinline__ uint32_t word() const { return settled_codes(codes); }
};

template <>
struct DirectPool<bfloat16> {
  static constexpr int kOrdered = kInfinite - 1;
  uint32_t marks[2] = {};  // of even and odd filters, a byte each
  template <bool kExactly>
  __device__ __forceinline__ float value(float v0, float v1, float v2, float v3, int filter,
                                         int clear, int& most) {
    const MarkedValue pooled =
        kExactly ? marked(pool_window(v0, v1, v2, v3)) : largest_marked(v0, v1, v2, v3, clear);
    if constexpr (!kExactly) most = max(most, pooled.bits);
    constexpr uint32_t kInto[4] = {0x3214, 0x3240, 0x3410, 0x4210};
    uint32_t& bytes = marks[filter % 2];
    bytes = filter < 2 ? pooled.bits : __byte_perm(bytes, pooled.bits, kInto[filter / 2]);
    return pooled.value();
  }
  __device__ __forceinline__ uint32_t word() const {
    return codes_of_marks((marks[0] & 0x07070707u) | (marks[1] & 0x07070707u) << 4);
  }
};

inline constexpr int kDirectMmaBlocks = 4;  // a multiprocessor

// blockIdx.x goes through runs of windows of images, y is one of 64 filters. In inference argmax is not kept, and looking for
// it would be a third of the instructions. Rows g and g + 8 of tile m are filters 8 g + 2 m and the next, so that of 64 filters
// a lane has all eight of a word of argmax; columns 2 q and 2 q + 1 are windows q and q + 4.
// Traffic: x through shared memory, where its pixels come from registers, to which they are fetched while the run before is
// multiplied; y leaves through it, where it lies as in its tensor: whole images, where a run is one.
template <class T, int kParts, Layout kLayout, bool kKeepsArgmax>
__global__ void __launch_bounds__(DirectTaps<T, kParts>::kWarps * 32, kDirectMmaBlocks)
    conv2d_direct_mma_forward_kernel(const __grid_constant__ DirectGeometry g,
                                     const __grid_constant__ DirectMmaRuns part, const T* x,
                                     const float* __restrict__ w, const float* __restrict__ bias,
                                     T* __restrict__ y, uint32_t* __restrict__ argmax) {
  using Taps = DirectTaps<T, kParts>;
  constexpr bool kPlanes = kLayout == Layout::kNCHW;
  constexpr int kTaps = 9, kVec = kWidest<T>, kFilters = kDirectMmaFilters, kTiles = kFilters / 16;
  constexpr int kWarps = Taps::kWarps, kThreads = kWarps * 32, kSets = Taps::kSets;
  // In inference y is what it is in training, without marks.
  constexpr bool kMarks = std::is_same_v<T, bfloat16>;
  constexpr int kFetched = (960 + kThreads - 1) / kThreads;
  extern __shared__ __align__(16) char memory[];
  T* const tile = reinterpret_cast<T*>(memory);
  T* const pixels = reinterpret_cast<T*>(memory + part.y_bytes);
  const int zeros_at = (kParts == 3 ? 2 : 1) * part.pixels;  // two
  __shared__ uint4 weights[kTiles][kSets][32];
  const int tid = threadIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = threadIdx.x % 32 / 4, of_four = threadIdx.x % 4;
  const int k0 = blockIdx.y * kFilters, count = min(kFilters, g.d.k - k0);
  const int pitch = part.pixels_pitch, units = g.d.n * part.runs;
  if (tid < 2) pixels[zeros_at + tid] = T(0.f);

  struct Unit {
    int image, first, windows, upper0, pixels;
  };
  const auto unit_at = [&](int number) {
    Unit unit;
    int run, last_upper, unused;
    part.by_runs.divmod(number, unit.image, run);
    unit.first = run * part.windows, unit.windows = min(part.windows, g.windows - unit.first);
    g.by_windows_w.divmod(unit.first, unit.upper0, unused);
    g.by_windows_w.divmod(unit.first + unit.windows - 1, last_upper, unused);
    unit.pixels = (2 * (last_upper - unit.upper0) + 4) * pitch;
    return unit;
  };
  const auto pixel = [&](const Unit& unit, int i) {
    int h, column;
    part.by_pitch.divmod(i, h, column);
    h += 2 * unit.upper0 - g.d.pad_h, column -= g.d.pad_w;
    const bool inside =
        i < unit.pixels && uint32_t(h) < uint32_t(g.d.h) && uint32_t(column) < uint32_t(g.d.w);
    return inside ? x[(size_t(unit.image) * g.d.h + h) * g.d.w + column] : T(0.f);
  };
  T fetched[kFetched];
  const auto fetch = [&](const Unit& unit) {
#pragma unroll
    for (int i = 0; i < kFetched; ++i) fetched[i] = pixel(unit, i * kThreads + tid);
  };

  wait_for_primary();
  Unit unit = unit_at(blockIdx.x);
  fetch(unit);
  for (int m = warp; m < kTiles; m += kWarps) {
    uint2 words[2][kSets];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int k = 8 * row + 2 * m + half;
      const auto weight = [&](int tap) {
        return k < count ? __ldg(w + (k0 + k) * kTaps + tap) : 0.f;
      };
      Taps::weights(words[half], of_four, weight,
                    bias != nullptr && k < count ? __ldg(bias + k0 + k) : 0.f);
    }
#pragma unroll
    for (int set = 0; set < kSets; ++set)
      weights[m][set][lane] = {words[0][set].x, words[1][set].x, words[0][set].y, words[1][set].y};
  }
  const auto tap_at = [&](int tap) { return tap / 3 * pitch + tap % 3; };
  const int first_at = tap_at(Taps::first_tap(of_four)),
            second_at = tap_at(Taps::second_tap(of_four));
  const int ninth_plane = Taps::ninth_plane(of_four), ninth_mask = ninth_plane < 0 ? 0 : ~0;
  const int ninth_at = ninth_plane < 0 ? zeros_at : ninth_plane * part.pixels + tap_at(kTaps - 1);
  const int my_window = threadIdx.x % 32 / 8 + threadIdx.x / 4 % 2 * 4;  // of eight, as a column

  for (int number = blockIdx.x; number < units; number += gridDim.x) {
#pragma unroll
    for (int i = 0; i < kFetched; ++i) {
      const int at = i * kThreads + tid;
      if (at < unit.pixels) Taps::put(pixels + at, part.pixels, fetched[i]);
    }
    for (int at = kFetched * kThreads + tid; at < unit.pixels; at += kThreads)
      Taps::put(pixels + at, part.pixels, pixel(unit, at));
    if (tid == 0) wait_for_bulk_stores();
    __syncthreads();
    const int image = unit.image, first = unit.first, windows = unit.windows;
    const int upper0 = unit.upper0;
    if (number + int(gridDim.x) < units) {
      unit = unit_at(number + gridDim.x);
      fetch(unit);
    }
    const uint32_t codes_at =
        (uint32_t(image) * argmax_groups(g.d.k) + k0 / 8 + row) * g.windows + first;
    // In the tile, from a filter to the next and from a window.
    const int filter_pitch = kPlanes ? windows : 1, window_pitch = kPlanes ? 1 : kFilters + kVec;
    for (int window0 = warp * 8; window0 < windows; window0 += kWarps * 8) {
      int upper, left;
      g.by_windows_w.divmod(first + min(window0 + my_window, windows - 1), upper, left);
      const int corner = 2 * (upper - upper0) * pitch + 2 * left;
      const int ninth = ninth_at + (corner & ninth_mask);
      uint2 patch[4][kSets];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int at = corner + e / 2 * pitch + e % 2;
        Taps::patch(patch[e], of_four, pixels, part.pixels, at + first_at, at + second_at,
                    ninth + e / 2 * (pitch & ninth_mask) + e % 2);
      }
      // Behind the last window all have that one's: what they store is the same.
      int my_windows[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) my_windows[i] = min(window0 + of_four + 4 * i, windows - 1);
      // Returns the largest of all, by which it may have to be done exactly.
      const auto pool_tiles = [&](auto exactly) {
        [[maybe_unused]] constexpr bool kExactly = decltype(exactly)::value;
        int most = 0;
        T* to[2];
#pragma unroll
        for (int i = 0; i < 2; ++i)
          to[i] = tile + row * 8 * filter_pitch + my_windows[i] * window_pitch;
        [[maybe_unused]] DirectPool<T> pool[2];
#pragma unroll
        for (int m = 0; m < kTiles; ++m) {
          uint4 words[kSets];
#pragma unroll
          for (int set = 0; set < kSets; ++set) words[set] = weights[m][set][lane];
          float sums[4][4] = {};
#pragma unroll
          for (int e = 0; e < 4; ++e) Taps::multiply(sums[e], words, patch[e]);
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            float values[2];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              const int at = 2 * half + i;
              if constexpr (kKeepsArgmax) {
                values[half] =
                    pool[i].template value<kExactly>(sums[0][at], sums[1][at], sums[2][at],
                                                     sums[3][at], 2 * m + half, part.clear, most);
              } else {
                const auto bits = [&](int e) { return __float_as_int(sums[e][at]); };
                const int largest =
                    __vimax_s32_relu(__vimax3_s32(bits(0), bits(1), bits(2)), bits(3));
                values[half] = __int_as_float(kMarks ? largest & part.clear : largest);
              }
            }
            if constexpr (kPlanes) {
              to[i][0] = T(values[0]), to[i][filter_pitch] = T(values[1]);
            } else {
              store(to[i], Vector<float, 2>{values[0], values[1]});
            }
            to[i] += 2 * filter_pitch;
          }
        }
        if constexpr (kKeepsArgmax) {
#pragma unroll
          for (int i = 0; i < 2; ++i)
            if (row * 8 < count) argmax[codes_at + my_windows[i]] = pool[i].word();
        }
        return most;
      };
      const int most = pool_tiles(std::false_type());
      if (kKeepsArgmax && __any_sync(~0u, most > DirectPool<T>::kOrdered))
        pool_tiles(std::true_type());
    }
    fence_async_proxy();
    __syncthreads();
    if constexpr (kPlanes) {
      T* const to = y + (size_t(image) * g.d.k + k0) * g.windows + first;
      const int all = count * windows;
      if (windows == g.windows && all % kVec == 0 && size_t(to - y) % kVec == 0) {
        if (DUET_BULK_STORES) {
          if (tid == 0) bulk_store(to, tile, all * sizeof(T));
        } else {
          for (int i = tid; i < all / kVec; i += kThreads)
            reinterpret_cast<float4*>(to)[i] = reinterpret_cast<const float4*>(tile)[i];
        }
      } else {
        for (int k = warp; k < count; k += kWarps)
          for (int i = lane; i < windows; i += 32)
            to[size_t(k) * g.windows + i] = tile[k * windows + i];
      }
    } else {
      T* const to = y + (size_t(image) * g.windows + first) * g.d.k + k0;
      if (g.d.k % kVec == 0) {
        const int pieces = count / kVec;
        for (int i = tid; i < windows * pieces; i += kThreads) {
          const int window = i / pieces, at = i % pieces * kVec;
          *reinterpret_cast<float4*>(to + size_t(window) * g.d.k + at) =
              *reinterpret_cast<const float4*>(tile + window * window_pitch + at);
        }
      } else {
        for (int i = tid; i < windows * count; i += kThreads)
          to[size_t(i / count) * g.d.k + i % count] = tile[i / count * window_pitch + i % count];
      }
    }
  }
  if (tid == 0) wait_for_bulk_stores();
}

/// What kernels here can do at all.
inline std::optional<std::string> direct_mma_unsupported(const Conv2dProblem& d) {
  if (d.c != 1 || d.r != 3 || d.s != 3) return "takes one channel and 3x3 filters";
  if (gpu_available() && gpu_attribute(cudaDevAttrComputeCapabilityMajor) < 8)
    return "takes a GPU of compute capability 8.0 or newer";
  return {};
}
/// Where they pay.
inline bool has_many_windows(const Conv2dProblem& d, int many = 1 << 16) {
  return int64_t{d.n} * (d.p / 2) * (d.q / 2) >= many;
}

template <class T, int kParts>
class DirectMmaForward {
 public:
  explicit DirectMmaForward(const Conv2dProblem& problem)
      : geometry_(problem, true), runs_(geometry_, sizeof(T)) {
    const int units = problem.n * runs_.runs, groups = ceil_div(problem.k, kDirectMmaFilters);
    const int at_once = std::max(1, kDirectMmaBlocks * multiprocessor_count() / groups);
    grid_ = dim3(ceil_div(units, ceil_div(units, at_once)), groups);
  }
  static std::optional<std::string> unsupported(const Conv2dProblem& problem) {
    if (auto reason = direct_mma_unsupported(problem)) return reason;
    if (gpu_available() &&
        shared_bytes(DirectMmaRuns(DirectGeometry(problem, true), sizeof(T))) > kMostShared)
      return "takes rows of x that fit into shared memory";
    return {};
  }

  /// `argmax` is nullptr in inference.
  void run(const T* x, const float* w, const float* b, T* y, uint32_t* argmax,
           cudaStream_t stream) const {
    const auto kernel_of = [&](auto keeps) {
      constexpr bool kKeeps = decltype(keeps)::value;
      return geometry_.d.layout == Layout::kNCHW
                 ? conv2d_direct_mma_forward_kernel<T, kParts, Layout::kNCHW, kKeeps>
                 : conv2d_direct_mma_forward_kernel<T, kParts, Layout::kNHWC, kKeeps>;
    };
    const auto kernel = argmax ? kernel_of(std::true_type()) : kernel_of(std::false_type());
    const size_t bytes = shared_bytes(runs_);
    DUET_CUDA(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)));
    launch_following({grid_, DirectTaps<T, kParts>::kWarps * 32, bytes, stream}, kernel, geometry_,
                     runs_, x, w, b, y, argmax);
  }
  std::string text() const {
    return "64 filters a block" + std::string(DirectTaps<T, kParts>::kText);
  }

 private:
  /// What any GPU of compute capability 8.0 gives, less the weights.
  static constexpr size_t kMostShared = 80 * 1024;
  /// Behind the pixels lie two zeros.
  static size_t shared_bytes(const DirectMmaRuns& runs) {
    return runs.y_bytes + sizeof(T) * ((kParts == 3 ? 2 : 1) * runs.pixels + 2);
  }

  const DirectGeometry geometry_;
  const DirectMmaRuns runs_;
  dim3 grid_;
};

}  // namespace duet
