// backward_filter of winograd_matrices.cuh: transforms of x and dy, 36 products of matrices, and dw of their results.
//
// Mapping: transforms: lane = tile, a warp one channel after the other; dw: a thread adds up nine
// points of a channel and filter, and one of four transforms what all four have.
// Traffic: x and dy once; 2.25 times both written and read; 36 floats a channel and filter likewise; dw once. A workspace
// below its limit takes slices of the tiles, one after the other, each with results of its own.
#pragma once

#include "layers/conv2d/winograd/winograd_matrices.cuh"

namespace duet {

/// Images, and where they go: [point][step][channel][tile of 32], zeros beyond the last tile.
struct TransformedImages {
  static constexpr int kTiles = PointProducts::kTerms, kChannels = 16, kThreads = 256;
  const float* from;
  float* to;
  TiledImages images;
  int blocks(int steps) const { return steps * ceil_div(images.channels, kChannels); }
};

template <class Matrix>
__device__ __forceinline__ void transform_images(const TransformedImages& target,
                                                 const FourTiles& tiles, int first_tile, int steps,
                                                 int block) {
  constexpr int kTiles = TransformedImages::kTiles, kSize = Matrix::kSize;
  const int step = block % steps, lane = threadIdx.x % kTiles, channels = target.images.channels;
  const int first = block / steps * TransformedImages::kChannels;
  const int last = min(channels, first + TransformedImages::kChannels);
  const TilePatch<kSize> patch(target.images, tiles, first_tile + step * kTiles + lane);
  const size_t next_point = size_t(steps) * channels * kTiles;
  for (int channel = first + threadIdx.x / kTiles; channel < last;
       channel += TransformedImages::kThreads / kTiles) {
    float values[kSize * kSize], points[WinogradSix::kPoints];
    patch.load(target.from, target.images, channel, values);
    transform_both<Matrix, WinogradSix::kPatch>(values, points);
    float* const to = target.to + (size_t(step) * channels + channel) * kTiles + lane;
#pragma unroll
    for (int i = 0; i < WinogradSix::kPoints; ++i) to[i * next_point] = points[i];
  }
}

// The first blocks have x, the others dy.
__global__ void __launch_bounds__(TransformedImages::kThreads, 2)
    winograd_transforms_kernel(const __grid_constant__ TransformedImages x,
                               const __grid_constant__ TransformedImages dy,
                               const __grid_constant__ FourTiles tiles, int first_tile, int steps,
                               int x_blocks) {
  wait_for_primary();
  const int block = blockIdx.x;
  if (block < x_blocks) {
    transform_images<WinogradSix::Input>(x, tiles, first_tile, steps, block);
  } else {
    transform_images<WinogradSix::Gradient>(dy, tiles, first_tile, steps, block - x_blocks);
  }
}

/// Weights of a block, and the points that one of its threads adds up for a weight.
struct WinogradSums {
  static constexpr int kWeights = 64, kEach = 9;
  static constexpr int kThreads = kWeights * WinogradSix::kPoints / kEach;
};

// `parts` are [slice][point][split] of [filter][channel] and then of E's sums, each `stride` from the next. dw leaves through
// shared memory, in the order of memory.
__global__ void __launch_bounds__(WinogradSums::kThreads)
    winograd_sums_kernel(const float* parts, int slices, int splits, size_t stride, int weights,
                         int filters, float* __restrict__ dw, float* __restrict__ db) {
  constexpr int kPoints = WinogradSix::kPoints, kPatch = WinogradSix::kPatch, kTaps = 9;
  constexpr int kWeights = WinogradSums::kWeights, kEach = WinogradSums::kEach;
  __shared__ float sums[kPoints][kWeights], taps[kWeights * kTaps];
  wait_for_primary();
  const int lane = threadIdx.x % kWeights, first_point = threadIdx.x / kWeights * kEach;
  const int first = blockIdx.x * kWeights, i = first + lane;
  const bool inside = i < weights + filters;
  if (inside) {
    float mine[kEach] = {};
    for (int slice = 0; slice < slices; ++slice) {
      for (int split = 0; split < splits; ++split) {
#pragma unroll
        for (int j = 0; j < kEach; ++j)
          mine[j] += parts[((slice * kPoints + first_point + j) * splits + split) * stride + i];
      }
    }
#pragma unroll
    for (int j = 0; j < kEach; ++j) sums[first_point + j][lane] = mine[j];
  }
  __syncthreads();
  if (first_point == 0 && inside) {
    float points[kPoints], of_weight[kTaps];
#pragma unroll
    for (int point = 0; point < kPoints; ++point) points[point] = sums[point][lane];
    if (i < weights) {
      transform_both<WinogradSix::Transposed<WinogradSix::Filter>, 3>(points, of_weight);
#pragma unroll
      for (int tap = 0; tap < kTaps; ++tap) taps[lane * kTaps + tap] = of_weight[tap];
    } else if (db != nullptr) {
      float total = 0.f;
#pragma unroll
      for (int point = 0; point < kPoints; ++point) {
        total += WinogradSix::share_of_ones(point / kPatch) *
                 WinogradSix::share_of_ones(point % kPatch) * points[point];
      }
      db[i - weights] = total;
    }
  }
  __syncthreads();
  const int count = min(kWeights, weights - first) * kTaps;
  for (int j = threadIdx.x; j < count; j += WinogradSums::kThreads) dw[first * kTaps + j] = taps[j];
}

/// dw and db.
class WinogradMatrixFilter {
 public:
  /// In as many slices of the tiles as leave the workspace below `limit` bytes.
  WinogradMatrixFilter(const Conv2dProblem& d, size_t limit, int multiprocessors)
      : problem_(d), tiles_(d), stride_(partial_stride(d.k, d.c)) {
    constexpr int kMostSlices = 16;
    for (int slices = 1; slices <= kMostSlices && !fits_; ++slices) {
      products_.emplace(d.k, d.c, ceil_div(tiles_.count, slices), stride_, limit, multiprocessors);
      slices_ = ceil_div(tiles_.count, slice_tiles());
      fits_ = workspace_bytes() <= limit;
    }
  }
  bool fits() const { return fits_; }
  size_t workspace_bytes() const {
    return sizeof(float) * (products_->row_floats() + products_->column_floats() +
                            slices_ * products_->result_floats());
  }
  double microseconds() const { return slices_ * products_->microseconds(); }
  std::string text() const {
    return products_->text() + (slices_ == 1 ? "" : ", " + std::to_string(slices_) + " slices");
  }

  /// `db` may be nullptr.
  void run(const float* x, const float* dy, float* dw, float* db, void* workspace,
           cudaStream_t stream) const {
    const Conv2dProblem& d = problem_;
    float* const of_dy = static_cast<float*>(workspace);
    float* const of_x = of_dy + products_->row_floats();
    float* const parts = of_x + products_->column_floats();
    const TransformedImages images{x, of_x, {d.c, d.h, d.w, d.pad_h, d.pad_w}};
    const TransformedImages gradients{dy, of_dy, {d.k, d.p, d.q, 0, 0}};
    const int steps = products_->steps(), x_blocks = images.blocks(steps), weights = d.k * d.c;
    for (int slice = 0; slice < slices_; ++slice) {
      launch_following({x_blocks + gradients.blocks(steps), TransformedImages::kThreads, 0, stream},
                       winograd_transforms_kernel, images, gradients, tiles_, slice * slice_tiles(),
                       steps, x_blocks);
      products_->launch<true>(of_dy, of_x, parts + slice * products_->result_floats(), stream);
    }
    launch_following(
        {ceil_div(weights + d.k, WinogradSums::kWeights), WinogradSums::kThreads, 0, stream},
        winograd_sums_kernel, parts, slices_, products_->splits(), stride_, weights, d.k, dw, db);
  }

 private:
  int slice_tiles() const { return products_->steps() * TransformedImages::kTiles; }

  const Conv2dProblem problem_;
  const FourTiles tiles_;
  const size_t stride_;  // between results
  std::optional<PointProducts> products_;
  int slices_ = 1;
  bool fits_ = false;
};

}  // namespace duet
