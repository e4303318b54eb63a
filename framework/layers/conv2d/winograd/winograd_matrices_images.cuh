// Results of the size of images by winograd_matrices.cuh, y of forward, or dx as a convolution of dy: transforms of filters and
// of x, 36 products of matrices, and y of their results.
//
// Mapping: filters: thread = filter and channel; x: block = 16 tiles x 32 channels, a thread of each, whose points leave through
// shared memory with channels side by side; y: lane = tile, a warp one filter after the other.
// Traffic: the filters once, 36 floats of each written and read; x once, 2.25 times as much written and read; y likewise. A
// workspace below its limit takes slices of the tiles, one after the other.
#pragma once

#include "layers/conv2d/winograd/winograd_filters.cuh"
#include "layers/conv2d/winograd/winograd_matrices.cuh"

namespace duet {

inline constexpr int kPointFilterThreads = 128;

// blockIdx.y is a column of `f`; to: [point][step][column][term].
__global__ void __launch_bounds__(kPointFilterThreads)
    winograd_point_filters_kernel(const __grid_constant__ WinogradFilters f, int steps,
                                  float* __restrict__ to) {
  constexpr int kTerms = PointProducts::kTerms, kTaps = 9;
  wait_for_primary();
  const int term = blockIdx.x * kPointFilterThreads + threadIdx.x, column = blockIdx.y;
  const int step = term / kTerms;
  if (step >= steps) return;
  float taps[kTaps] = {}, points[WinogradSix::kPoints];
  if (term < f.depth) {
    const float* const at = f.w + size_t(column) * f.column_stride + size_t(term) * f.depth_stride;
#pragma unroll
    for (int i = 0; i < kTaps; ++i) taps[i] = at[f.flipped ? kTaps - 1 - i : i];
  }
  transform_both<WinogradSix::Filter, WinogradSix::kPatch>(taps, points);
  float* const first = to + (size_t(step) * f.columns + column) * kTerms + term % kTerms;
#pragma unroll
  for (int i = 0; i < WinogradSix::kPoints; ++i)
    first[size_t(i) * steps * f.columns * kTerms] = points[i];
}

/// Tiles and channels of a block.
struct PointPatches {
  static constexpr int kTiles = 16, kChannels = PointProducts::kTerms;
  static constexpr int kThreads = kTiles * kChannels;
};

// blockIdx.x is 16 of `count` tiles from `first_tile` on, y a step: 32 channels; to: [point][step][tile][channel].
__global__ void __launch_bounds__(PointPatches::kThreads, 2)
    winograd_point_patches_kernel(const float* x, const __grid_constant__ Conv2dProblem d,
                                  const __grid_constant__ FourTiles tiles, int first_tile,
                                  int count, float* __restrict__ to) {
  constexpr int kTiles = PointPatches::kTiles, kChannels = PointPatches::kChannels;
  constexpr int kPatch = WinogradSix::kPatch, kPoints = WinogradSix::kPoints;
  constexpr int kAtOnce = 4, kPitch = kChannels + 2;  // neither writes nor reads meet in a bank
  static_assert(kPoints % kAtOnce == 0);
  __shared__ float exchange[2][kAtOnce][kTiles][kPitch];
  wait_for_primary();
  const int in_block = threadIdx.x % kTiles, in_step = threadIdx.x / kTiles;
  const int channel = blockIdx.y * kChannels + in_step;
  const TiledImages images{d.c, d.h, d.w, d.pad_h, d.pad_w};
  float values[kPatch * kPatch] = {}, points[kPoints];
  if (channel < d.c) {
    const TilePatch<kPatch> patch(images, tiles, first_tile + blockIdx.x * kTiles + in_block);
    patch.load(x, images, channel, values);
  }
  transform_both<WinogradSix::Input, kPatch>(values, points);
  const int lane = threadIdx.x % kChannels, tile = threadIdx.x / kChannels;
  const size_t next_point = size_t(gridDim.y) * count * kChannels;
  float* at = to + (size_t(blockIdx.y) * count + blockIdx.x * kTiles + tile) * kChannels + lane;
#pragma unroll
  for (int first = 0; first < kPoints; first += kAtOnce) {
    auto& slot = exchange[first / kAtOnce % 2];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) slot[i][in_block][in_step] = points[first + i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) at[(first + i) * next_point] = slot[i][tile][lane];
  }
}

inline constexpr int kTileOutputThreads = 256, kTileOutputFilters = 16;

// blockIdx.x is 32 of `count` tiles from `first_tile` on, y 16 filters; `parts`: [point][split][filter][tile].
__global__ void __launch_bounds__(kTileOutputThreads, 2)
    winograd_outputs_kernel(const float* parts, int splits, const __grid_constant__ Conv2dProblem d,
                            const __grid_constant__ FourTiles tiles, int first_tile, int count,
                            const float* __restrict__ bias, float* __restrict__ y) {
  constexpr int kTile = WinogradSix::kTile, kPoints = WinogradSix::kPoints;
  wait_for_primary();
  const int in_slice = blockIdx.x * 32 + threadIdx.x % 32, tile = first_tile + in_slice;
  if (in_slice >= count || tile >= tiles.count) return;
  int n, index, row, column;
  tiles.by_image.divmod(tile, n, index);
  tiles.by_columns.divmod(index, row, column);
  row *= kTile, column *= kTile;
  const int first = blockIdx.y * kTileOutputFilters, last = min(d.k, first + kTileOutputFilters);
  const size_t next_part = size_t(d.k) * count;
  for (int k = first + threadIdx.x / 32; k < last; k += kTileOutputThreads / 32) {
    const float* const from = parts + size_t(k) * count + in_slice;
    float points[kPoints] = {}, out[kTile * kTile];
    for (int split = 0; split < splits; ++split) {
#pragma unroll
      for (int i = 0; i < kPoints; ++i) points[i] += from[(size_t(i) * splits + split) * next_part];
    }
    transform_both<WinogradSix::Transposed<WinogradSix::Gradient>, kTile>(points, out);
    const float shift = bias != nullptr ? bias[k] : 0.f;
    float* const to = y + (size_t(n) * d.k + k) * d.p * d.q + row * d.q + column;
#pragma unroll
    for (int i = 0; i < kTile; ++i) {
      if (row + i >= d.p) break;
      float v[kTile];
#pragma unroll
      for (int j = 0; j < kTile; ++j) v[j] = out[i * kTile + j] + shift;
      float* const of_row = to + i * d.q;
      if (d.q % 4 == 0) {  // then rows are of whole 16 bytes, and tiles of whole rows
        *reinterpret_cast<float4*>(of_row) = {v[0], v[1], v[2], v[3]};
      } else if (d.q % 2 == 0) {
#pragma unroll
        for (int j = 0; j < kTile; j += 2)
          if (column + j < d.q) *reinterpret_cast<float2*>(of_row + j) = {v[j], v[j + 1]};
      } else {
#pragma unroll
        for (int j = 0; j < kTile; ++j)
          if (column + j < d.q) of_row[j] = v[j];
      }
    }
  }
}

/// y of a problem's x and filters.
class WinogradMatrixImages {
 public:
  /// In as many slices of the tiles as leave the workspace below `limit` bytes.
  WinogradMatrixImages(const Conv2dProblem& d, size_t limit, int multiprocessors)
      : problem_(d), tiles_(d) {
    constexpr int kMostSlices = 16;
    for (int slices = 1; slices <= kMostSlices && !fits_; ++slices) {
      slice_tiles_ = round_up(ceil_div(tiles_.count, slices), PointPatches::kTiles);
      slices_ = ceil_div(tiles_.count, slice_tiles_);
      products_.emplace(d.k, slice_tiles_, d.c, size_t(d.k) * slice_tiles_, limit, multiprocessors);
      fits_ = workspace_bytes() <= limit;
    }
  }
  bool fits() const { return fits_; }
  size_t workspace_bytes() const {
    return sizeof(float) *
           (products_->row_floats() + products_->column_floats() + products_->result_floats());
  }
  double microseconds() const { return slices_ * products_->microseconds(); }
  std::string text() const {
    return products_->text() + (slices_ == 1 ? "" : ", " + std::to_string(slices_) + " slices");
  }

  /// `bias` may be nullptr.
  void run(const float* x, const WinogradFilters& filters, const float* bias, float* y,
           void* workspace, cudaStream_t stream) const {
    const Conv2dProblem& d = problem_;
    float* const of_filters = static_cast<float*>(workspace);
    float* const of_x = of_filters + products_->row_floats();
    float* const parts = of_x + products_->column_floats();
    const int steps = products_->steps(), count = slice_tiles_;
    launch_following({dim3(ceil_div(steps * PointProducts::kTerms, kPointFilterThreads), d.k),
                      kPointFilterThreads, 0, stream},
                     winograd_point_filters_kernel, filters, steps, of_filters);
    for (int slice = 0; slice < slices_; ++slice) {
      const int first_tile = slice * count;
      launch_following(
          {dim3(count / PointPatches::kTiles, steps), PointPatches::kThreads, 0, stream},
          winograd_point_patches_kernel, x, d, tiles_, first_tile, count, of_x);
      products_->launch<false>(of_filters, of_x, parts, stream);
      launch_following({dim3(ceil_div(count, 32), ceil_div(d.k, kTileOutputFilters)),
                        kTileOutputThreads, 0, stream},
                       winograd_outputs_kernel, parts, products_->splits(), d, tiles_, first_tile,
                       count, bias, y);
    }
  }

 private:
  const Conv2dProblem problem_;
  const FourTiles tiles_;
  int slice_tiles_ = 1, slices_ = 1;
  std::optional<PointProducts> products_;
  bool fits_ = false;
};

}  // namespace duet
