// custom_direct without a pooling, backward_filter in nchw: all of dw is so small that the warps of a block keep it
// as sums of mma.sync (kernels/mma_tile.cuh), filters its rows and taps its columns, and walk over the positions.
//
// The terms of an instruction may be any positions, if both operands have the same. So a lane loads 16 bytes of
// neighbouring positions, of a filter of dy from global memory and of a tap of x from shared memory, and these are its
// words of two instructions. In shared memory lies what every s reads along a row of outputs, so that a tap's positions
// are neighbours whatever the stride; the taps of a column share it: an image's row is written S times, not R*S.
// The last column is ones, whose products are the bias' gradient.
#pragma once

#include <algorithm>

#include "device/launch.h"
#include "kernels/bulk_copy.cuh"
#include "kernels/mma_tile.cuh"
#include "kernels/split_reduction.cuh"
#include "kernels/tf32.cuh"
#include "kernels/vector.cuh"
#include "layers/conv2d/conv2d_geometry.cuh"

namespace duet {

inline constexpr int kFilterProductWarps = 8;     // of a block, at most
inline constexpr int kFilterProductFilters = 32;  // of a warp
inline constexpr int kPositionWords = 4;          // of a lane: 16 bytes

/// How a product is cut. A block takes bands, so many rows of outputs of an image.
struct FilterProductPlan {
  Conv2dProblem d;
  int taps, tiles;                   // columns of a warp by 8
  int band_rows, bands, image_rows;  // of outputs, an image, and of x that a band reads
  int chunks;                        // of a row of outputs: four lanes' positions
  int pitch;                         // words from a row in shared memory to the next
  int left, copy_pitch;              // elements before a row of x as it is copied, and to the next
  int tap_groups, filter_groups, position_groups;  // of warps
  bool copies;                                     // the copy engine brings x, a band ahead
  FastDivisor by_bands, by_chunks, by_image_rows, by_r, by_s;

  FilterProductPlan(const Conv2dProblem& problem, int multiprocessors)
      : d(problem), taps(d.c * d.r * d.s), tiles(taps < 32 ? 4 : 7) {
    const int positions = 16 / int(size_of(d.dtype));  // of a lane
    chunks = ceil_div(d.q, 4 * positions);
    // Rows of neighbouring taps lie in different banks.
    pitch = kPositionWords * (chunks % 2 == 0 ? 4 * chunks + 4 : 4 * chunks);
    tap_groups = ceil_div(taps + 1, 8 * tiles);
    filter_groups = d.k > kFilterProductFilters && 2 * tap_groups <= kFilterProductWarps ? 2 : 1;
    position_groups = std::max(1, kFilterProductWarps / roles());
    left = round_up(d.pad_w, positions);
    const int last = (4 * positions * chunks - 1) * d.stride_w + (d.s - 1) * d.dilation_w - d.pad_w;
    copy_pitch = round_up(left + std::max(d.w, last + 1), positions);
    copies = built_for_clusters() && gpu_attribute(cudaDevAttrComputeCapabilityMajor) >= 9 &&
             d.w * int(size_of(d.dtype)) % 16 == 0;
    constexpr size_t kMostImageBytes = 110 * 1024;  // two blocks on a multiprocessor
    const int enough = std::max(1, ceil_div(d.n * d.p, 6 * multiprocessors));
    band_rows = std::min(d.p, enough);
    while (band_rows > 1 && image_bytes(rows_read(band_rows)) > kMostImageBytes) --band_rows;
    bands = ceil_div(d.p, band_rows);
    band_rows = ceil_div(d.p, bands);
    image_rows = rows_read(band_rows);
    by_bands = FastDivisor(bands), by_chunks = FastDivisor(chunks);
    by_image_rows = FastDivisor(image_rows), by_r = FastDivisor(d.r), by_s = FastDivisor(d.s);
  }
  int roles() const { return tap_groups * filter_groups; }
  int rows_read(int rows) const { return (rows - 1) * d.stride_h + (d.r - 1) * d.dilation_h + 1; }
  int threads() const { return 32 * roles() * position_groups; }
  int filter_blocks() const { return ceil_div(d.k, filter_groups * kFilterProductFilters); }
  /// Bytes of x as taps read it, of its rows as they are copied, and one of zeros.
  size_t image_bytes(int rows) const {
    return sizeof(uint32_t) * d.c * d.s * rows * pitch +
           size_of(d.dtype) * (d.c * rows + 1) * copy_pitch;
  }
  /// Of a block, which has an image's rows there, and in the end the sums of all groups of positions but one.
  size_t shared_bytes() const {
    const size_t sums =
        sizeof(float) * kFilterProductFilters * 8 * tiles * roles() * (position_groups - 1);
    return std::max(image_bytes(image_rows), sums);
  }
};

// blockIdx.x is a split of the bands, y of the filters. partial[split] = dw [filters][taps], then dbias [filters].
template <class Mma, int kTiles, class T>
__global__ void __launch_bounds__(32 * kFilterProductWarps, 2)
    conv2d_direct_filter_product_kernel(const __grid_constant__ FilterProductPlan g, const T* x,
                                        const T* dy, float* __restrict__ partial) {
  constexpr int kPositions = kWidest<T>, kRowTiles = kFilterProductFilters / 16;
  extern __shared__ __align__(16) uint32_t image[];  // [channel][row][s][pitch]
  T* const copied = reinterpret_cast<T*>(image + g.d.c * g.image_rows * g.d.s *
                                                     g.pitch);  // [channel][row][copy_pitch]
  __shared__ CopyBarrier there;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const int row = lane / 4, of_four = lane % 4;
  const int roles = g.tap_groups * g.filter_groups, role = warp % roles, group = warp / roles;
  const int filter0 =
      (blockIdx.y * g.filter_groups + role % g.filter_groups) * kFilterProductFilters + row;
  const int tap0 = role / g.filter_groups * kTiles * 8, ones = g.tap_groups * kTiles * 8 - 1;
  const int pixels = g.d.p * g.d.q, row_words = g.d.stride_h * g.d.s * g.pitch;

  int tap_at[kTiles];  // words; taps that are none read another's
#pragma unroll
  for (int j = 0; j < kTiles; ++j) {
    const int tap = min(tap0 + j * 8 + row, g.taps - 1);
    int channel, rest, r, s;
    g.by_s.divmod(tap, rest, s);
    g.by_r.divmod(rest, channel, r);
    tap_at[j] = ((channel * g.image_rows + r * g.d.dilation_h) * g.d.s + s) * g.pitch;
  }
  const bool has_ones = tap0 + (kTiles - 1) * 8 + row == ones;
  const uint32_t one = sizeof(T) == 2 ? 0x3f803f80 : 0x3f800000;

  // What a chunk has of dy. Fetched one chunk ahead: it comes from DRAM.
  struct Gradients {
    uint4 rows[kRowTiles][2];
  };
  const auto fetch = [&](const T* band, int chunk) {
    int p, in_row;
    g.by_chunks.divmod(chunk, p, in_row);
    const int q = (in_row * 4 + of_four) * kPositions;
    const T* const from = band + size_t(filter0) * pixels + p * g.d.q + q;
    Gradients next;
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int further = 16 * m + 8 * half;
        next.rows[m][half] = q < g.d.q && filter0 + further < g.d.k
                                 ? *reinterpret_cast<const uint4*>(from + size_t(further) * pixels)
                                 : uint4{};
      }
    return next;
  };

  // To L2: what the block will fetch of a band, a filter a thread.
  const auto bring_near = [&](int task) {
#if __CUDA_ARCH__ >= 900
    const int filters = g.filter_groups * kFilterProductFilters;
    const int filter = blockIdx.y * filters + threadIdx.x;
    if (threadIdx.x >= filters || filter >= g.d.k) return;
    int n, band;
    g.by_bands.divmod(task, n, band);
    const int p0 = band * g.band_rows, rows = min(g.band_rows, g.d.p - p0);
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(
                     dy + (size_t(n) * g.d.k + filter) * pixels + p0 * g.d.q),
                 "r"(rows * g.d.q * int(sizeof(T))));
#endif
  };
  const int image_rows = g.d.c * g.image_rows;
  // By one warp: starts to copy the rows of x under a band.
  const auto copy = [&](int task) {
    int n, band;
    g.by_bands.divmod(task, n, band);
    const int h0 = band * g.band_rows * g.d.stride_h - g.d.pad_h;
    const int first = max(h0, 0), rows = min(h0 + g.image_rows, g.d.h) - first;
    const uint32_t bytes = g.d.w * sizeof(T);
    if (lane == 0) rows > 0 ? there.expect(g.d.c * rows * bytes) : there.arrive();
    __syncwarp();
    for (int i = lane; i < image_rows; i += 32) {
      int channel, row_of_band;
      g.by_image_rows.divmod(i, channel, row_of_band);
      const int h = h0 + row_of_band;
      if (uint32_t(h) < uint32_t(g.d.h))
        bulk_copy(
            reinterpret_cast<float*>(copied + i * g.copy_pitch + g.left),
            reinterpret_cast<const float*>(x + (size_t(n * g.d.c + channel) * g.d.h + h) * g.d.w),
            bytes, there);
    }
  };
  // By all: the same where rows are no whole 16 bytes.
  const auto load_rows = [&](int n, int p0) {
    for (int i = warp; i < image_rows; i += warps) {
      int channel, row_of_band;
      g.by_image_rows.divmod(i, channel, row_of_band);
      const int h = p0 * g.d.stride_h - g.d.pad_h + row_of_band;
      if (uint32_t(h) >= uint32_t(g.d.h)) continue;
      const T* const from = x + (size_t(n * g.d.c + channel) * g.d.h + h) * g.d.w;
      for (int w = lane; w < g.d.w; w += 32) copied[i * g.copy_pitch + g.left + w] = from[w];
    }
    __syncthreads();
  };
  // Lays them out as the taps read them.
  const auto lay_out = [&](int n, int p0) {
    const int h0 = p0 * g.d.stride_h - g.d.pad_h, words = g.chunks * 4 * kPositionWords;
    for (int i = warp; i < image_rows; i += warps) {
      int channel, row_of_band;
      g.by_image_rows.divmod(i, channel, row_of_band);
      const bool inside = uint32_t(h0 + row_of_band) < uint32_t(g.d.h);
      const T* const from = copied + (inside ? i : image_rows) * g.copy_pitch + g.left - g.d.pad_w;
      for (int word = lane; word < words; word += 32) {
        constexpr int kOfWord = 4 / sizeof(T);
        const T* at = from + word * kOfWord * g.d.stride_w;
        uint32_t* to = image + i * g.d.s * g.pitch + word;
#pragma unroll 4
        for (int s = 0; s < g.d.s; ++s, at += g.d.dilation_w, to += g.pitch) {
          if constexpr (kOfWord == 2) {
            *to = at[0].bits | uint32_t(at[g.d.stride_w].bits) << 16;
          } else {
            *to = __float_as_uint(Mma::kInParts ? at[0] : tf32_rounded(at[0]));
          }
        }
      }
    }
  };

  for (int i = threadIdx.x; i < (image_rows + 1) * g.copy_pitch; i += blockDim.x)
    copied[i] = T(0.f);
  fence_async_proxy();  // before the copies' writes
  if (g.copies && threadIdx.x == 0) there.init();
  __syncthreads();
  wait_for_primary();
  if (g.copies && warp == 0) copy(blockIdx.x);
  int number = 0;
  float sums[kTiles][kRowTiles][4] = {};
  for (int task = blockIdx.x; task < g.d.n * g.bands; task += gridDim.x) {
    int n, band;
    g.by_bands.divmod(task, n, band);
    const int p0 = band * g.band_rows;
    const int chunks = min(g.band_rows, g.d.p - p0) * g.chunks;
    const T* const gradients = dy + size_t(n) * g.d.k * pixels + p0 * g.d.q;
    Gradients next;
    if (group < chunks) next = fetch(gradients, group);
    __syncthreads();  // nobody reads the band before this one any more
    if (task + gridDim.x < g.d.n * g.bands) bring_near(task + gridDim.x);
    if (g.copies) {
      there.wait(number++);
    } else {
      load_rows(n, p0);
    }
    lay_out(n, p0);
    __syncthreads();
    if (g.copies && warp == 0 && task + gridDim.x < g.d.n * g.bands) copy(task + gridDim.x);
    for (int chunk = group; chunk < chunks; chunk += g.position_groups) {
      uint32_t a[kRowTiles][2][4];  // of two instructions
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        const auto& [upper, lower] = next.rows[m];
        const uint32_t words[2][4] = {{upper.x, lower.x, upper.y, lower.y},
                                      {upper.z, lower.z, upper.w, lower.w}};
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          const uint32_t word = words[i / 4][i % 4];
          if constexpr (sizeof(T) == 4 && !Mma::kInParts) {
            a[m][i / 4][i % 4] = __float_as_uint(tf32_rounded(__uint_as_float(word)));
          } else {
            a[m][i / 4][i % 4] = word;
          }
        }
      }
      if (chunk + g.position_groups < chunks) next = fetch(gradients, chunk + g.position_groups);
      int p, in_row;
      g.by_chunks.divmod(chunk, p, in_row);
      const uint32_t* const at = image + p * row_words + (in_row * 4 + of_four) * kPositionWords;
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
        uint4 b = *reinterpret_cast<const uint4*>(at + tap_at[j]);
        if (j == kTiles - 1 && has_ones) b = {one, one, one, one};
        const auto add = [&](float(&c)[kRowTiles][4]) {
#pragma unroll
          for (int m = 0; m < kRowTiles; ++m) {
            Mma::multiply(c[m][0], c[m][1], c[m][2], c[m][3], a[m][0], b.x, b.y);
            Mma::multiply(c[m][0], c[m][1], c[m][2], c[m][3], a[m][1], b.z, b.w);
          }
        };
        if constexpr (Mma::kInParts) {
          float of_chunk[kRowTiles][4] = {};
          add(of_chunk);
#pragma unroll
          for (int m = 0; m < kRowTiles; ++m)
#pragma unroll
            for (int i = 0; i < 4; ++i) sums[j][m][i] += of_chunk[m][i];
        } else {
          add(sums[j]);
        }
      }
    }
  }

  // The groups of positions add up where the image was.
  constexpr int kSums = kTiles * kRowTiles * 4;
  const auto with_sums = [&](auto use) {
#pragma unroll
    for (int i = 0; i < kSums; ++i)
      use(sums[i / (kRowTiles * 4)][i / 4 % kRowTiles][i % 4], i * 32 + lane);
  };
  float* const others = reinterpret_cast<float*>(image);
  __syncthreads();
  if (group > 0)
    with_sums(
        [&](float sum, int at) { others[((group - 1) * roles + role) * kSums * 32 + at] = sum; });
  __syncthreads();
  if (group > 0) return;
  for (int other = 1; other < g.position_groups; ++other)
    with_sums(
        [&](float& sum, int at) { sum += others[((other - 1) * roles + role) * kSums * 32 + at]; });
  float* const out = partial + size_t(blockIdx.x) * g.d.k * (g.taps + 1);
#pragma unroll
  for (int j = 0; j < kTiles; ++j)
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int filter = filter0 + 16 * m + i / 2 * 8, tap = tap0 + j * 8 + of_four * 2 + i % 2;
        if (filter >= g.d.k) continue;
        if (tap < g.taps) out[filter * g.taps + tap] = sums[j][m][i];
        if (tap == ones) out[g.d.k * g.taps + filter] = sums[j][m][i];
      }
}

/// Whether backward_filter has this product. Positions of dy are loaded 16 bytes at a time.
inline bool filter_product_possible(const Conv2dProblem& d) {
  if (ungrouped_unsupported(d) || d.layout != Layout::kNCHW || d.c > 4 || !gpu_available() ||
      gpu_attribute(cudaDevAttrComputeCapabilityMajor) < 8) {
    return false;
  }
  const int64_t taps = int64_t{d.c} * d.r * d.s;
  constexpr int kMostSide = 1 << 14;  // of a padded image
  if (taps > 200 || taps == d.c || d.h + 2 * d.pad_h > kMostSide || d.w + 2 * d.pad_w > kMostSide) {
    return false;
  }
  const FilterProductPlan plan(d, multiprocessor_count());
  return d.q * int(size_of(d.dtype)) % 16 == 0 &&
         plan.shared_bytes() + sizeof(CopyBarrier) <=
             size_t(gpu_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
}

/// backward_filter. REQUIRES: filter_product_possible().
template <class Mma, class T>
class DirectFilterProduct {
 public:
  explicit DirectFilterProduct(const Conv2dProblem& problem)
      : plan_(problem, multiprocessor_count()) {
    const int blocks = ceil_div(2 * multiprocessor_count(), plan_.filter_blocks());
    const int tasks = problem.n * plan_.bands;
    splits_ = ceil_div(tasks, ceil_div(tasks, blocks));
  }

  size_t workspace_bytes() const { return sizeof(float) * splits_ * partial_floats(); }
  /// `db` may be nullptr.
  void run(const T* x, const T* dy, float* dw, float* db, void* workspace,
           cudaStream_t stream) const {
    float* const partial = static_cast<float*>(workspace);
    with_kernel([&](auto* kernel) {
      const size_t bytes = plan_.shared_bytes();
      DUET_CUDA(
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)));
      launch_following({dim3(splits_, plan_.filter_blocks()), plan_.threads(), bytes, stream},
                       kernel, plan_, x, dy, partial);
    });
    launch_reduce_splits(partial, splits_, partial_floats(), partial_floats(),
                         plan_.d.k * plan_.taps, dw, db, stream);
  }
  std::string text() const {
    return std::to_string(plan_.band_rows) + " rows a band, " + std::to_string(splits_) +
           " splits" + Mma::kText;
  }

 private:
  int partial_floats() const { return plan_.d.k * (plan_.taps + 1); }
  template <class F>
  void with_kernel(F f) const {
    plan_.tiles == 4 ? f(conv2d_direct_filter_product_kernel<Mma, 4, T>)
                     : f(conv2d_direct_filter_product_kernel<Mma, 7, T>);
  }

  const FilterProductPlan plan_;
  int splits_ = 1;
};

}  // namespace duet
