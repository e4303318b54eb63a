// custom_direct without a pooling, forward in nchw: filters are the rows of an mma.sync (kernels/mma_tile.cuh), output
// pixels its columns and taps its terms.
//
// The columns of an instruction may be any pixels. A lane's results are two neighbouring columns; over a few
// instructions they are made a run of neighbours in memory, 16 bytes of y, which it stores at once.
// x lies in shared memory with its padding, as many rows as a band of outputs reads; a lane gathers its taps there.
#pragma once

#include <algorithm>

#include "device/launch.h"
#include "kernels/mma_tile.cuh"
#include "kernels/moment_parts.cuh"
#include "kernels/rasters.cuh"
#include "kernels/vector.cuh"
#include "layers/conv2d/conv2d_geometry.cuh"

namespace duet {

inline constexpr int kForwardProductThreads = 256,
                     kForwardProductPixels = 32;  // of a block; of a warp at a time

/// How a product is cut. A block takes bands, so many rows of outputs of an image.
struct ForwardProductPlan {
  Conv2dProblem d;
  int taps, steps;                   // of a filter; instructions that have them
  int band_rows, bands, image_rows;  // of outputs, an image, and of x that a band reads
  int pitch, pixels;                 // elements of a row of x in shared memory, and of all
  int runs;                          // of 16 bytes, of a row of outputs
  FastDivisor by_bands, by_runs, by_image_rows, by_pitch, by_r, by_s;

  ForwardProductPlan(const Conv2dProblem& problem, int multiprocessors)
      : d(problem), taps(d.c * d.r * d.s), steps(ceil_div(taps, depth())) {
    const int width = (d.q - 1) * d.stride_w + (d.s - 1) * d.dilation_w + 1;
    const int bank_row = 128 / int(size_of(d.dtype));
    pitch = round_up(width + bank_row / 2, bank_row) - bank_row / 2;  // rows half the banks apart
    runs = d.q * int(size_of(d.dtype)) / 16;
    constexpr size_t kMostPixelBytes = 48 * 1024;
    const int enough = std::max(1, ceil_div(d.n * d.p, 4 * multiprocessors));
    band_rows = std::min(d.p, enough);
    while (band_rows > 1 && size_of(d.dtype) * pixels_of(band_rows) > kMostPixelBytes) --band_rows;
    bands = ceil_div(d.p, band_rows);
    band_rows = ceil_div(d.p, bands);
    image_rows = rows_read(band_rows), pixels = pixels_of(band_rows);
    by_bands = FastDivisor(bands), by_runs = FastDivisor(std::max(1, runs));
    by_image_rows = FastDivisor(image_rows), by_pitch = FastDivisor(pitch);
    by_r = FastDivisor(d.r), by_s = FastDivisor(d.s);
  }
  int depth() const { return d.dtype == DType::kBFloat16 ? MmaBf16::kDepth : MmaTf32::kDepth; }
  /// In float32 there are not registers for more.
  int row_tiles() const { return d.k <= 32 || d.math == Math::kFP32 ? 2 : 4; }
  int rows_read(int rows) const { return (rows - 1) * d.stride_h + (d.r - 1) * d.dilation_h + 1; }
  size_t pixels_of(int rows) const { return size_t{1} * d.c * rows_read(rows) * pitch; }
  /// Weights and places of taps as lanes read them, x, and zeros.
  size_t shared_bytes() const {
    return 16 * (size_t{1} * steps * (row_tiles() * 32 + 4) + 4) + size_of(d.dtype) * pixels;
  }
};

/// Adds to the moments of a lane's filters its results of some runs, of which it has `count`; inside(u): whether there is
/// run u.
template <class T, int kRuns, int kTilesOfRun, int kRowTiles, class Inside>
__device__ __forceinline__ void add_product_moments(
    RowMoments<2 * kRowTiles>& all, const float (&sums)[kRuns][kTilesOfRun][kRowTiles][4],
    float count, Inside inside) {
  if (count == 0.f) return;
  const float share = __fdividef(1.f, count);
  float mean[2 * kRowTiles], squares[2 * kRowTiles];
#pragma unroll
  for (int i = 0; i < 2 * kRowTiles; ++i) {
    const auto visit = [&](auto look) {
#pragma unroll
      for (int u = 0; u < kRuns; ++u) {
        if (kRuns > 1 && !inside(u)) continue;
#pragma unroll
        for (int t = 0; t < kTilesOfRun; ++t) {
          const float* const pixels = sums[u][t][i / 2] + i % 2 * 2;
          const StoredPair<T> pair(pixels[0], pixels[1]);
          look(pair[0]);
          look(pair[1]);
        }
      }
    };
    look_twice(share, visit, mean[i], squares[i]);
  }
  all.join(count, mean, squares);
}

// blockIdx.x takes bands by turns, y has 16 * kRowTiles filters. `moments`: of y, a part a blockIdx.x.
template <class Mma, int kRowTiles, int kStride, class T>
__global__ void __launch_bounds__(kForwardProductThreads, 2)
    conv2d_direct_forward_product_kernel(const __grid_constant__ ForwardProductPlan g,
                                         const T* __restrict__ x, const float* __restrict__ w,
                                         const float* __restrict__ bias, T* __restrict__ y,
                                         const ChannelMoments moments) {
  constexpr bool kBf16 = sizeof(T) == 2;
  constexpr int kThreads = kForwardProductThreads, kWarps = kThreads / 32;
  constexpr int kRun = kWidest<T>,
                kTilesOfRun = kRun / 2;  // pixels, and instructions that have them
  constexpr int kRuns = kForwardProductPixels / 4 / kRun;  // of a lane
  constexpr int kLaneTaps = kBf16 ? 4 : 2;                 // of an instruction
  extern __shared__ __align__(16) uint32_t memory[];
  uint4* const weights = reinterpret_cast<uint4*>(memory);  // [step][tile][lane]
  int4* const places =
      reinterpret_cast<int4*>(weights + g.steps * kRowTiles * 32);  // [step][of four]
  T* const zeros = reinterpret_cast<T*>(places + g.steps * 4);
  T* const pixels = zeros + 4 * kRun;  // [channel][row][pitch]
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32, row = lane / 4, of_four = lane % 4;
  const int k0 = blockIdx.y * 16 * kRowTiles;
  // The taps of a lane of four: terms of an instruction.
  const auto tap_of = [](int step, int of, int i) {
    return kBf16 ? step * 16 + 2 * of + i % 2 + i / 2 * 8 : step * 8 + of + 4 * i;
  };

  for (int i = tid; i < g.steps * 4; i += kThreads) {
    int at[4] = {};
#pragma unroll
    for (int j = 0; j < kLaneTaps; ++j) {
      const int tap = tap_of(i / 4, i % 4, j);
      int channel, r, s;
      g.by_s.divmod(tap, channel, s);
      g.by_r.divmod(channel, channel, r);
      at[j] = tap < g.taps
                  ? (channel * g.image_rows + r * g.d.dilation_h) * g.pitch + s * g.d.dilation_w
                  : -1;
    }
    places[i] = {at[0], at[1], at[2], at[3]};
  }
  if (tid < 4 * kRun) zeros[tid] = T(0.f);
  wait_for_primary();
  for (int i = tid; i < g.steps * kRowTiles * 32; i += kThreads) {
    const int step = i / 32 / kRowTiles, filter = k0 + i / 32 % kRowTiles * 16 + i % 32 / 4;
    const auto weight = [&](int half, int j) {
      const int k = filter + 8 * half, tap = tap_of(step, i % 4, j);
      return k < g.d.k && tap < g.taps ? __ldg(w + k * g.taps + tap) : 0.f;
    };
    uint32_t words[4];  // rows and rows + 8 of the first terms, then of the others
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if constexpr (kBf16) {
        words[j] = bfloat16(weight(j % 2, j / 2 * 2)).bits |
                   uint32_t(bfloat16(weight(j % 2, j / 2 * 2 + 1)).bits) << 16;
      } else {
        const float value = weight(j % 2, j / 2);
        words[j] = __float_as_uint(Mma::kInParts ? value : tf32_rounded(value));
      }
    }
    weights[i] = {words[0], words[1], words[2], words[3]};
  }
  float biases[kRowTiles][2];
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int k = k0 + m * 16 + half * 8 + row;
      biases[m][half] = bias != nullptr && k < g.d.k ? __ldg(bias + k) : 0.f;
    }

  RowMoments<2 * kRowTiles> mine;
  for (int task = blockIdx.x; task < g.d.n * g.bands; task += gridDim.x) {
    int n, p0;
    g.by_bands.divmod(task, n, p0);
    p0 *= g.band_rows;
    __syncthreads();  // nobody reads the band before this one any more
    const int h0 = p0 * g.d.stride_h - g.d.pad_h;
#pragma unroll 4
    for (int i = tid; i < g.pixels; i += kThreads) {
      int channel, h, column;
      g.by_pitch.divmod(i, h, column);
      g.by_image_rows.divmod(h, channel, h);
      h += h0, column -= g.d.pad_w;
      const bool inside = uint32_t(h) < uint32_t(g.d.h) && uint32_t(column) < uint32_t(g.d.w);
      T value = inside ? x[(size_t(n * g.d.c + channel) * g.d.h + h) * g.d.w + column] : T(0.f);
      if constexpr (!kBf16 && !Mma::kInParts) value = tf32_rounded(value);
      pixels[i] = value;
    }
    __syncthreads();
    const int runs = min(g.band_rows, g.d.p - p0) * g.runs;  // of the band
    T* const out = y + (size_t(n) * g.d.k + k0) * g.d.p * g.d.q + p0 * g.d.q;
    for (int run0 = warp * 4 * kRuns; run0 < runs; run0 += kWarps * 4 * kRuns) {
      const T* corner[kRuns];  // of the first pixel of this lane's column
#pragma unroll
      for (int u = 0; u < kRuns; ++u) {
        int p, run;
        g.by_runs.divmod(min(run0 + u * 4 + row / 2, runs - 1), p, run);
        corner[u] = pixels + p * g.d.stride_h * g.pitch + (run * kRun + row % 2) * kStride;
      }
      float sums[kRuns][kTilesOfRun][kRowTiles][4];
#pragma unroll
      for (int i = 0; i < kRuns * kTilesOfRun * kRowTiles * 4; ++i) {
        const int m = i / 4 % kRowTiles;
        sums[i / 4 / kRowTiles / kTilesOfRun][i / 4 / kRowTiles % kTilesOfRun][m][i % 4] =
            biases[m][i % 4 / 2];
      }
#pragma unroll 1
      for (int step = 0; step < g.steps; ++step) {
        const int4 place = places[step * 4 + of_four];
        const int at[4] = {place.x, place.y, place.z, place.w};
        uint32_t a[kRowTiles][4];
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) {
          const uint4 words = weights[(step * kRowTiles + m) * 32 + lane];
          a[m][0] = words.x, a[m][1] = words.y, a[m][2] = words.z, a[m][3] = words.w;
        }
#pragma unroll
        for (int u = 0; u < kRuns; ++u) {
          const T* from[kLaneTaps];
#pragma unroll
          for (int j = 0; j < kLaneTaps; ++j) from[j] = at[j] < 0 ? zeros : corner[u] + at[j];
#pragma unroll
          for (int t = 0; t < kTilesOfRun; ++t) {
            // region gather
            uint32_t b[2];
            if constexpr (kBf16) {
#pragma unroll
              for (int j = 0; j < 2; ++j)
                b[j] = __byte_perm(from[2 * j][2 * t * kStride].bits,
                                   from[2 * j + 1][2 * t * kStride].bits, 0x5410);
            } else {
#pragma unroll
              for (int j = 0; j < 2; ++j) b[j] = __float_as_uint(from[j][2 * t * kStride]);
            }
            // end gather
#pragma unroll
            for (int m = 0; m < kRowTiles; ++m) {
              float(&c)[4] = sums[u][t][m];
              if constexpr (Mma::kInParts) {
                float of_step[4] = {};
                Mma::multiply(of_step[0], of_step[1], of_step[2], of_step[3], a[m], b[0], b[1]);
#pragma unroll
                for (int i = 0; i < 4; ++i) c[i] += of_step[i];
              } else {
                Mma::multiply(c[0], c[1], c[2], c[3], a[m], b[0], b[1]);
              }
            }
          }
        }
      }
#pragma unroll
      for (int u = 0; u < kRuns; ++u) {
        const int run = run0 + u * 4 + of_four;
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m)
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const int k = m * 16 + half * 8 + row;
            Vector<float, kRun> result;
#pragma unroll
            for (int t = 0; t < kTilesOfRun; ++t) {
              result.v[2 * t] = sums[u][t][m][2 * half];
              result.v[2 * t + 1] = sums[u][t][m][2 * half + 1];
            }
            if (run < runs && k0 + k < g.d.k)
              store(out + size_t(k) * g.d.p * g.d.q + run * kRun, result);
          }
      }
      if (moments.parts > 0) {
        const auto inside = [&](int u) { return run0 + u * 4 + of_four < runs; };
        int count = 0;
#pragma unroll
        for (int u = 0; u < kRuns; ++u) count += inside(u) ? kRun : 0;
        add_product_moments<T>(mine, sums, float(count), inside);
      }
    }
  }
  if (moments.parts == 0) return;
  constexpr int kFilters = 16 * kRowTiles;
  __shared__ WarpMoments<kWarps, kFilters> warps;
  mine.join_quad();
  if (of_four == 0)
#pragma unroll
    for (int i = 0; i < 2 * kRowTiles; ++i)
      warps.of[warp][i * 8 + row] = {mine.mean[i], mine.squares[i]};
  if (lane == 0) warps.counts[warp] = mine.count;
  __syncthreads();
  if (tid < kFilters && k0 + tid < g.d.k) warps.leave(moments, k0, tid, blockIdx.x);
}

/// Whether forward has this product. Pixels of y are stored 16 bytes at a time.
inline bool forward_product_possible(const Conv2dProblem& d) {
  if (ungrouped_unsupported(d) || d.layout != Layout::kNCHW || d.c > 4 || d.stride_w > 2 ||
      d.q * int(size_of(d.dtype)) % 16 != 0 || !gpu_available() ||
      gpu_attribute(cudaDevAttrComputeCapabilityMajor) < 8) {
    return false;
  }
  constexpr int kMostSide = 1 << 14;  // of a padded image
  const int64_t taps = int64_t{d.c} * d.r * d.s;
  return taps <= 200 && taps > d.c && d.h + 2 * d.pad_h <= kMostSide &&
         d.w + 2 * d.pad_w <= kMostSide &&
         ForwardProductPlan(d, multiprocessor_count()).shared_bytes() <=
             size_t(gpu_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
}

/// forward. REQUIRES: forward_product_possible().
template <class Mma, class T>
class DirectForwardProduct {
 public:
  explicit DirectForwardProduct(const Conv2dProblem& problem)
      : plan_(problem, multiprocessor_count()) {
    groups_ = ceil_div(problem.k, 16 * plan_.row_tiles());
    const int tasks = problem.n * plan_.bands;
    blocks_ = ceil_div(tasks, ceil_div(tasks * groups_, 4 * multiprocessor_count()));
  }
  int moment_parts() const { return blocks_; }
  /// `b` may be nullptr.
  void run(const T* x, const float* w, const float* b, T* y, cudaStream_t stream,
           const ChannelMoments& moments = {}) const {
    const auto launch = [&](auto* kernel) {
      const size_t bytes = plan_.shared_bytes();
      DUET_CUDA(
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)));
      launch_following({dim3(blocks_, groups_), kForwardProductThreads, bytes, stream}, kernel,
                       plan_, x, w, b, y, moments);
    };
    const auto with_tiles = [&]<int kTiles>() {
      plan_.d.stride_w == 1 ? launch(conv2d_direct_forward_product_kernel<Mma, kTiles, 1, T>)
                            : launch(conv2d_direct_forward_product_kernel<Mma, kTiles, 2, T>);
    };
    if constexpr (Mma::kInParts) {
      with_tiles.template operator()<2>();
    } else {
      plan_.row_tiles() == 2 ? with_tiles.template operator()<2>()
                             : with_tiles.template operator()<4>();
    }
  }
  std::string text() const {
    return std::to_string(plan_.band_rows) + " rows a band, " +
           std::to_string(16 * plan_.row_tiles()) + " filters a block" + Mma::kText;
  }

 private:
  const ForwardProductPlan plan_;
  int groups_ = 1, blocks_ = 1;
};

}  // namespace duet
