// custom_direct without a pooling, backward_filter in nhwc and bfloat16: all of dw is so small that each warp keeps it
// as sums of mma.sync (kernels/mma_tile.cuh), taps its rows and filters its columns, and walks over the positions.
//
// The columns of an instruction may be any filters and its terms any positions, if both operands have the same. So a
// lane loads 4 neighbouring filters of 4 neighbouring positions, 8 bytes each, and these are its words of four
// instructions: a warp reads 32 filters of 16 positions in whole sectors, and nothing of dy goes through shared memory.
// Of x, whose rows the block has there, a row's taps of a position are S*C neighbours. The row behind the taps is
// ones, whose products are the bias' gradient.
#pragma once

#include <algorithm>

#include "device/launch.h"
#include "kernels/mma_tile.cuh"
#include "kernels/split_reduction.cuh"
#include "kernels/vector.cuh"
#include "layers/conv2d/conv2d_geometry.cuh"

namespace duet {

inline constexpr int kFilterRowsWarps = 8;       // of a block
inline constexpr int kFilterRowsFilters = 32;    // of a block
inline constexpr int kFilterRowsPositions = 16;  // of an instruction: a chunk of a row of outputs

/// How the sums are cut. A block takes bands, so many rows of outputs of an image.
struct FilterRowsPlan {
  Conv2dProblem d;
  int taps, tiles;                   // of a filter; rows of a warp by 16
  int band_rows, bands, image_rows;  // of outputs, an image, and of x that a band reads
  int chunks, pitch;                 // of a row of outputs; elements of a row of x
  FastDivisor by_bands, by_chunks;

  FilterRowsPlan(const Conv2dProblem& problem, int multiprocessors)
      : d(problem), taps(d.c * d.r * d.s), tiles(ceil_div(taps + 1, 16)) {
    chunks = ceil_div(d.q, kFilterRowsPositions);
    pitch = (chunks * kFilterRowsPositions + d.s - 1) * d.c;
    constexpr int kMostImage = 16 * 1024;  // elements
    band_rows = std::min(d.p, std::max(1, ceil_div(d.n * d.p, 6 * multiprocessors)));
    while (band_rows > 1 && (band_rows + d.r - 1) * pitch > kMostImage) --band_rows;
    bands = ceil_div(d.p, band_rows);
    band_rows = ceil_div(d.p, bands);
    image_rows = band_rows + d.r - 1;
    by_bands = FastDivisor(bands), by_chunks = FastDivisor(chunks);
  }
  int sums() const { return tiles * 16; }  // of a lane
  /// Of a block: x of a band, and in the end the sums of all warps but one.
  size_t shared_bytes() const {
    const size_t of_warps = sizeof(float) * (kFilterRowsWarps - 1) * 32 * sums();
    return std::max(sizeof(bfloat16) * image_rows * pitch, of_warps);
  }
};

// blockIdx.x is a split of the bands, y of the filters. partial[split] = dw [filters][taps], then dbias [filters].
template <int kTiles>
__global__ void __launch_bounds__(32 * kFilterRowsWarps, 2)
    conv2d_direct_filter_rows_kernel(const __grid_constant__ FilterRowsPlan g, const bfloat16* x,
                                     const bfloat16* dy, float* __restrict__ partial) {
  extern __shared__ __align__(16) uint16_t staged[];  // [row][pitch]
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int row = lane / 4, of_four = lane % 4;
  const int filter0 = blockIdx.y * kFilterRowsFilters + 4 * row;
  const int channels = g.d.c, row_taps = g.d.s * channels;

  int tap_at[kTiles][2];  // rows that are no taps read another's
#pragma unroll
  for (int m = 0; m < kTiles; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int tap = min(16 * m + 8 * half + row, g.taps - 1);
      tap_at[m][half] = tap / row_taps * g.pitch + tap % row_taps;
    }

  // What a chunk has of dy. Fetched two chunks ahead: it comes from DRAM.
  struct Gradients {
    uint2 filters[4];
  };
  const auto fetch = [&](const bfloat16* band, int chunk, int chunks) {
    int p, in_row;
    g.by_chunks.divmod(chunk, p, in_row);
    const int q = in_row * kFilterRowsPositions + 4 * of_four;
    const bfloat16* const from = band + size_t(p * g.d.q + q) * g.d.k + filter0;
    Gradients next;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const bool there = chunk < chunks && q + e < g.d.q && filter0 < g.d.k;
      next.filters[e] =
          there ? __ldg(reinterpret_cast<const uint2*>(from + size_t(e) * g.d.k)) : uint2{};
    }
    return next;
  };
  // The rows of x under a band, zeros in the padding and behind what positions read.
  const auto stage = [&](int n, int p0) {
    const int width = g.d.w * channels, needed = (g.d.q + g.d.s - 1) * channels;
    for (int i = warp; i < g.image_rows; i += kFilterRowsWarps) {
      const int h = p0 - g.d.pad_h + i;
      const bool inside = uint32_t(h) < uint32_t(g.d.h);
      const bfloat16* const from = x + (size_t(n) * g.d.h + (inside ? h : 0)) * width;
      for (int j = lane; j < g.pitch; j += 32) {
        const int at = j - g.d.pad_w * channels;
        const bool exists = inside && uint32_t(at) < uint32_t(width) && j < needed;
        staged[i * g.pitch + j] = exists ? from[at].bits : uint16_t{0};
      }
    }
  };

  wait_for_primary();
  float sums[kTiles][4][4] = {};
  for (int task = blockIdx.x; task < g.d.n * g.bands; task += gridDim.x) {
    int n, band;
    g.by_bands.divmod(task, n, band);
    const int p0 = band * g.band_rows;
    const int chunks = min(g.band_rows, g.d.p - p0) * g.chunks;
    const bfloat16* const gradients = dy + (size_t(n) * g.d.p + p0) * g.d.q * g.d.k;
    Gradients next = fetch(gradients, warp, chunks);
    Gradients after = fetch(gradients, warp + kFilterRowsWarps, chunks);
    __syncthreads();  // nobody reads the band before this one any more
    stage(n, p0);
    __syncthreads();
    for (int chunk = warp; chunk < chunks; chunk += kFilterRowsWarps) {
      const Gradients now = next;
      next = after;
      after = fetch(gradients, chunk + 2 * kFilterRowsWarps, chunks);
      int p, in_row;
      g.by_chunks.divmod(chunk, p, in_row);
      const int q = in_row * kFilterRowsPositions + 4 * of_four;
      const uint16_t* const at = staged + p * g.pitch + q * channels;
      // Positions behind the row are no terms.
      const auto mask_of = [&](int e) {
        return (q + e < g.d.q ? 0xffffu : 0u) | (q + e + 1 < g.d.q ? 0xffff0000u : 0u);
      };
      const uint32_t masks[2] = {mask_of(0), mask_of(2)};
      uint32_t b[4][2];
#pragma unroll
      for (int j = 0; j < 4; ++j)
#pragma unroll
        for (int two = 0; two < 2; ++two) {
          const uint2 low = now.filters[2 * two], high = now.filters[2 * two + 1];
          b[j][two] = __byte_perm(j < 2 ? low.x : low.y, j < 2 ? high.x : high.y,
                                  j % 2 == 0 ? 0x5410 : 0x7632);
        }
#pragma unroll
      for (int m = 0; m < kTiles; ++m) {
        uint32_t a[4];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const uint16_t* const of_tap = at + tap_at[m][half];
          const bool ones = 16 * m + 8 * half + row == g.taps;
#pragma unroll
          for (int two = 0; two < 2; ++two) {
            const uint32_t word =
                of_tap[2 * two * channels] | uint32_t{of_tap[(2 * two + 1) * channels]} << 16;
            a[2 * two + half] = (ones ? 0x3f803f80u : word) & masks[two];
          }
        }
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          auto& c = sums[m][j];
          MmaBf16::multiply(c[0], c[1], c[2], c[3], a, b[j][0], b[j][1]);
        }
      }
    }
  }

  // The warps add up where x was.
  const auto with_sums = [&](auto use) {
#pragma unroll
    for (int i = 0; i < kTiles * 16; ++i) use(sums[i / 16][i / 4 % 4][i % 4], i * 32 + lane);
  };
  constexpr int kOfWarp = kTiles * 16 * 32;
  float* const others = reinterpret_cast<float*>(staged);
  __syncthreads();
  if (warp > 0) with_sums([&](float sum, int at) { others[(warp - 1) * kOfWarp + at] = sum; });
  __syncthreads();
  if (warp > 0) return;
  for (int other = 0; other < kFilterRowsWarps - 1; ++other)
    with_sums([&](float& sum, int at) { sum += others[other * kOfWarp + at]; });
  float* const out = partial + size_t(blockIdx.x) * g.d.k * (g.taps + 1);
#pragma unroll
  for (int m = 0; m < kTiles; ++m)
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int tap = 16 * m + i / 2 * 8 + row;
        const int filter = blockIdx.y * kFilterRowsFilters + 4 * (2 * of_four + i % 2) + j;
        if (filter >= g.d.k) continue;
        if (tap < g.taps) out[filter * g.taps + tap] = sums[m][j][i];
        if (tap == g.taps) out[g.d.k * g.taps + filter] = sums[m][j][i];
      }
}

/// Whether backward_filter has these sums. REQUIRES: custom_direct takes the problem in this pass.
inline bool filter_rows_possible(const Conv2dProblem& d) {
  return d.layout == Layout::kNHWC && d.dtype == DType::kBFloat16 && d.k % 4 == 0 &&
         gpu_available() && gpu_attribute(cudaDevAttrComputeCapabilityMajor) >= 8 &&
         FilterRowsPlan(d, multiprocessor_count()).shared_bytes() <= 48 * 1024;
}

/// backward_filter. REQUIRES: filter_rows_possible().
class DirectFilterRows {
 public:
  explicit DirectFilterRows(const Conv2dProblem& problem) : plan_(problem, multiprocessor_count()) {
    const int filter_blocks = ceil_div(problem.k, kFilterRowsFilters);
    const int wanted = std::max(1, 3 * multiprocessor_count() / filter_blocks);
    grid_ = dim3(std::min(wanted, problem.n * plan_.bands), filter_blocks);
  }
  size_t workspace_bytes() const { return sizeof(float) * grid_.x * partial_floats(); }
  std::string text() const {
    return "mma bf16, bands of " + std::to_string(plan_.band_rows) + " rows, " +
           std::to_string(grid_.x) + " splits";
  }
  /// `db` may be nullptr.
  void run(const bfloat16* x, const bfloat16* dy, float* dw, float* db, void* workspace,
           cudaStream_t stream) const {
    float* const partial = static_cast<float*>(workspace);
    const auto queue = [&]<int kTiles>(std::integral_constant<int, kTiles>) {
      launch_following({grid_, 32 * kFilterRowsWarps, plan_.shared_bytes(), stream},
                       conv2d_direct_filter_rows_kernel<kTiles>, plan_, x, dy, partial);
    };
    switch (plan_.tiles) {
      case 1:
        queue(std::integral_constant<int, 1>());
        break;
      case 2:
        queue(std::integral_constant<int, 2>());
        break;
      default:
        queue(std::integral_constant<int, 3>());
        break;
    }
    launch_reduce_splits(partial, grid_.x, partial_floats(), partial_floats(),
                         plan_.d.k * plan_.taps, dw, db, stream);
  }

 private:
  int partial_floats() const { return plan_.d.k * (plan_.taps + 1); }

  FilterRowsPlan plan_;
  dim3 grid_;
};

}  // namespace duet
