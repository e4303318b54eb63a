// custom_direct without a pooling, forward in nchw: filters are the rows of an mma.sync (kernels/mma_tile.cuh), output
// pixels its columns and taps its terms.
//
// The columns of an instruction may be any pixels. A lane's results are two neighbouring columns; over a few
// instructions they are made a run of neighbours in memory, 16 bytes of y, which it stores at once.
// x lies in shared memory with its padding, as many rows as a band of outputs reads; a lane gathers its taps there. Rows of
// whole 16 bytes are copied past the registers while the band before them is multiplied.
#pragma once

#include <algorithm>

#include "device/launch.h"
#include "kernels/load_if.cuh"
#include "kernels/mma_tile.cuh"
#include "kernels/moment_parts.cuh"
#include "kernels/tf32.cuh"
#include "kernels/vector.cuh"
#include "layers/conv2d/conv2d_geometry.cuh"

namespace duet {

inline constexpr int kForwardProductThreads = 256,
                     kForwardProductPixels = 32;  // of a block; of a warp at a time

/// Blocks of so many filters by 16 on a multiprocessor.
template <class Mma>
constexpr int forward_product_blocks(int row_tiles) {
  return row_tiles == 2 && !Mma::kInParts ? 3 : 2;
}

/// How a product is cut. A block takes bands, so many rows of outputs of an image.
struct ForwardProductPlan {
  Conv2dProblem d;
  int taps, steps;                   // of a filter; instructions that have them
  int groups, blocks;                // of filters; of bands
  int band_rows, bands, image_rows;  // of outputs, an image, and of x that a band reads
  int left, pitch;                   // elements before a row of x in shared memory, and to the next
  int pixels, buffers;               // elements of a band there, and how many it has room for
  int pieces;                        // of 16 bytes, of a row of x; 0: of no whole number
  int runs;                          // of 16 bytes, of a row of outputs
  FastDivisor by_bands, by_runs, by_image_rows, by_pitch, by_pieces, by_r, by_s;

  ForwardProductPlan(const Conv2dProblem& problem, int blocks_at_once)
      : d(problem),
        taps(d.c * d.r * d.s),
        steps(ceil_div(taps, depth())),
        groups(ceil_div(d.k, 16 * row_tiles())) {
    const int size = size_of(d.dtype), bank_row = 128 / size;
    pieces = d.w * size % 16 == 0 ? d.w * size / 16 : 0;
    buffers = pieces > 0 ? 2 : 1;
    left = pieces > 0 ? round_up(d.pad_w, 16 / size) : d.pad_w;
    const int last = (d.q - 1) * d.stride_w + (d.s - 1) * d.dilation_w - d.pad_w;
    const int width = left + std::max(d.w, last + 1);
    pitch = round_up(width + bank_row / 2, bank_row) - bank_row / 2;  // rows half the banks apart
    runs = d.q * size / 16;
    // In rounds of a block's warps, and what a band takes besides.
    double least = 1e300;
    for (int rows = 1; rows <= d.p; ++rows) {
      constexpr size_t kMostPixelBytes = 48 * 1024;
      if (rows > 1 && size * pixels_of(rows) * buffers > kMostPixelBytes) break;
      const int of_image = ceil_div(d.p, rows);
      if (rows != ceil_div(d.p, of_image)) continue;
      const int tasks = d.n * of_image, each = ceil_div(tasks * groups, blocks_at_once);
      const double cost =
          each * (0.5 + ceil_div(rows * d.q, kForwardProductPixels * kForwardProductThreads / 32));
      if (cost >= least) continue;
      least = cost;
      band_rows = rows, bands = of_image, blocks = ceil_div(tasks, each);
    }
    image_rows = rows_read(band_rows), pixels = pixels_of(band_rows);
    by_bands = FastDivisor(bands), by_runs = FastDivisor(std::max(1, runs));
    by_image_rows = FastDivisor(image_rows), by_pitch = FastDivisor(pitch);
    by_pieces = FastDivisor(std::max(1, pieces));
    by_r = FastDivisor(d.r), by_s = FastDivisor(d.s);
  }
  int depth() const { return d.dtype == DType::kBFloat16 ? MmaBf16::kDepth : MmaTf32::kDepth; }
  /// In float32 there are not registers for more.
  static int row_tiles(const Conv2dProblem& d) {
    return d.k <= 32 || d.math == Math::kFP32 ? 2 : 4;
  }
  int row_tiles() const { return row_tiles(d); }
  int rows_read(int rows) const { return (rows - 1) * d.stride_h + (d.r - 1) * d.dilation_h + 1; }
  size_t pixels_of(int rows) const { return size_t{1} * d.c * rows_read(rows) * pitch; }
  /// Weights and places of taps as lanes read them, x, and zeros.
  size_t shared_bytes() const {
    return 16 * (size_t{1} * steps * (row_tiles() * 32 + 4) + 4) +
           size_of(d.dtype) * buffers * pixels;
  }
};

// blockIdx.x takes bands by turns, y has 16 * kRowTiles filters. `moments`: of y, a part a blockIdx.x.
template <class Mma, int kRowTiles, int kStride, class T>
__global__ void __launch_bounds__(kForwardProductThreads, forward_product_blocks<Mma>(kRowTiles))
    conv2d_direct_forward_product_kernel(const __grid_constant__ ForwardProductPlan g, const T* x,
                                         const float* __restrict__ w,
                                         const float* __restrict__ bias, T* __restrict__ y,
                                         const ChannelMoments moments) {
  constexpr bool kBf16 = sizeof(T) == 2;
  constexpr int kThreads = kForwardProductThreads, kWarps = kThreads / 32;
  constexpr int kRun = kWidest<T>,
                kTilesOfRun = kRun / 2;  // pixels, and instructions that have them
  constexpr int kRuns = kForwardProductPixels / 4 / kRun;  // of a lane
  constexpr bool kRounds = !kBf16 && !Mma::kInParts;
  constexpr int kLaneTaps = kBf16 ? 4 : 2;  // of an instruction
  extern __shared__ __align__(16) uint32_t memory[];
  uint4* const weights = reinterpret_cast<uint4*>(memory);  // [step][tile][lane]
  int4* const places =
      reinterpret_cast<int4*>(weights + g.steps * kRowTiles * 32);  // [step][of four]
  T* const zeros = reinterpret_cast<T*>(places + g.steps * 4);
  T* const pixels = zeros + 4 * kRun;  // [buffer][channel][row][pitch]
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

  const int tasks = g.d.n * g.bands, all_pieces = g.d.c * g.image_rows * g.pieces;
  // Calls visit(place in a buffer, channel, row of x) for every piece of a band that this thread brings.
  const auto for_pieces = [&](auto visit) {
    for (int i = tid; i < all_pieces; i += kThreads) {
      int line, piece, channel, h;
      g.by_pieces.divmod(i, line, piece);
      g.by_image_rows.divmod(line, channel, h);
      visit(line * g.pitch + g.left + piece * kRun, channel, h, piece * kRun);
    }
  };
  const auto start_of = [&](int task, int& n, int& p0) {
    g.by_bands.divmod(task, n, p0);
    p0 *= g.band_rows;
  };
  const auto fetch = [&](int task, T* to) {
    int n, p0;
    start_of(task, n, p0);
    const int h0 = p0 * g.d.stride_h - g.d.pad_h;
    for_pieces([&](int place, int channel, int h, int column) {
      const bool inside = uint32_t(h + h0) < uint32_t(g.d.h);
      const size_t row = size_t(n * g.d.c + channel) * g.d.h + (inside ? h + h0 : 0);
      copy_or_zeros<16>(to + place, x + row * g.d.w + column, inside);
    });
  };
  // What was fetched is there, as it is multiplied.
  const auto settle = [&](T* band) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
    if constexpr (kRounds) {
      for_pieces([&](int place, int, int, int) {
        Vector<T, kRun> piece = *reinterpret_cast<const Vector<T, kRun>*>(band + place);
#pragma unroll
        for (float& value : piece.v) value = tf32_rounded(value);
        *reinterpret_cast<Vector<T, kRun>*>(band + place) = piece;
      });
    }
  };
  // The same where rows are no whole 16 bytes.
  const auto load = [&](int task, T* band) {
    int n, p0;
    start_of(task, n, p0);
    const int h0 = p0 * g.d.stride_h - g.d.pad_h;
#pragma unroll 4
    for (int i = tid; i < g.pixels; i += kThreads) {
      int channel, h, column;
      g.by_pitch.divmod(i, h, column);
      g.by_image_rows.divmod(h, channel, h);
      h += h0, column -= g.left;
      const bool inside = uint32_t(h) < uint32_t(g.d.h) && uint32_t(column) < uint32_t(g.d.w);
      T value = inside ? x[(size_t(n * g.d.c + channel) * g.d.h + h) * g.d.w + column] : T(0.f);
      if constexpr (kRounds) value = tf32_rounded(value);
      band[i] = value;
    }
  };

  if (g.pieces > 0) {  // what is beside the rows stays zero
    for (int i = tid; i < 2 * g.pixels / kRun; i += kThreads)
      reinterpret_cast<uint4*>(pixels)[i] = {};
    __syncthreads();
  }
  wait_for_primary();
  if (g.pieces > 0) fetch(blockIdx.x, pixels);
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

  SumsAboutFirst<2 * kRowTiles> mine;
  T* band = pixels;
  T* other = pixels + (g.buffers - 1) * g.pixels;
  for (int task = blockIdx.x; task < tasks; task += gridDim.x) {
    if (g.pieces > 0) {
      settle(band);
    } else {
      __syncthreads();  // nobody reads the band before this one any more
      load(task, band);
    }
    __syncthreads();
    if (g.pieces > 0 && task + gridDim.x < tasks) fetch(task + gridDim.x, other);
    int n, p0;
    start_of(task, n, p0);
    const int runs = min(g.band_rows, g.d.p - p0) * g.runs;  // of the band
    const size_t eight_filters = size_t{8} * g.d.p * g.d.q;
    T* const of_lane = y + (size_t(n) * g.d.k + k0 + row) * g.d.p * g.d.q + p0 * g.d.q;
    for (int run0 = warp * 4 * kRuns; run0 < runs; run0 += kWarps * 4 * kRuns) {
      const T* corner[kRuns];  // of the first pixel of this lane's column
#pragma unroll
      for (int u = 0; u < kRuns; ++u) {
        int p, run;
        g.by_runs.divmod(min(run0 + u * 4 + row / 2, runs - 1), p, run);
        corner[u] = band + p * g.d.stride_h * g.pitch + g.left - g.d.pad_w +
                    (run * kRun + row % 2) * kStride;
      }
      float sums[kRuns][kTilesOfRun][kRowTiles][4];
#pragma unroll
      for (int i = 0; i < kRuns * kTilesOfRun * kRowTiles * 4; ++i) {
        const int m = i / 4 % kRowTiles;
        sums[i / 4 / kRowTiles / kTilesOfRun][i / 4 / kRowTiles % kTilesOfRun][m][i % 4] =
            biases[m][i % 4 / 2];
      }
      int step = 0;
#pragma unroll 1
      do {
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
      } while (++step < g.steps);
#pragma unroll
      for (int u = 0; u < kRuns; ++u) {
        const int run = run0 + u * 4 + of_four;
        if (run >= runs) continue;
        alignas(16) StoredPair<T> results[2 * kRowTiles][kTilesOfRun];
#pragma unroll
        for (int i = 0; i < 2 * kRowTiles; ++i) {
#pragma unroll
          for (int t = 0; t < kTilesOfRun; ++t) {
            const float* const pair = sums[u][t][i / 2] + i % 2 * 2;
            results[i][t] = {pair[0], pair[1]};
          }
          uint4 word;
          static_assert(sizeof word == sizeof results[i]);
          memcpy(&word, results[i], sizeof word);
          if (k0 + row + 8 * i < g.d.k)
            __stcg(reinterpret_cast<uint4*>(of_lane + i * eight_filters + run * kRun), word);
        }
        if (moments.parts == 0) continue;
#pragma unroll
        for (int i = 0; i < 2 * kRowTiles; ++i) {
          mine.begin(i, results[i][0][0]);
#pragma unroll
          for (int pixel = 0; pixel < kRun; ++pixel) mine.add(i, results[i][pixel / 2][pixel % 2]);
        }
        mine.count += kRun;
      }
    }
    T* const read = band;
    band = other, other = read;
  }
  if (moments.parts == 0) return;
  constexpr int kFilters = 16 * kRowTiles;
  __shared__ WarpMoments<kWarps, kFilters> warps;
  RowMoments<2 * kRowTiles> joined = mine.moments();
  joined.join_quad();
  if (of_four == 0)
#pragma unroll
    for (int i = 0; i < 2 * kRowTiles; ++i)
      warps.of[warp][i * 8 + row] = {joined.mean[i], joined.squares[i]};
  if (lane == 0) warps.counts[warp] = joined.count;
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
         ForwardProductPlan(d, 2 * multiprocessor_count()).shared_bytes() <=
             size_t(gpu_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
}

/// forward. REQUIRES: forward_product_possible().
template <class Mma, class T>
class DirectForwardProduct {
 public:
  explicit DirectForwardProduct(const Conv2dProblem& problem)
      : plan_(problem, multiprocessor_count() *
                           forward_product_blocks<Mma>(ForwardProductPlan::row_tiles(problem))) {}
  int moment_parts() const { return plan_.blocks; }
  /// `b` may be nullptr.
  void run(const T* x, const float* w, const float* b, T* y, cudaStream_t stream,
           const ChannelMoments& moments = {}) const {
    const auto launch = [&](auto* kernel) {
      const size_t bytes = plan_.shared_bytes();
      DUET_CUDA(
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)));
      launch_following({dim3(plan_.blocks, plan_.groups), kForwardProductThreads, bytes, stream},
                       kernel, plan_, x, w, b, y, moments);
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
};

}  // namespace duet
