// A sum too long for the blocks that its results need: cut into splits that leave partial results
// in the workspace, and added up in a fixed order, so that the result does not depend on timing.
#pragma once

#include <algorithm>
#include <functional>

#include "core/tensor.h"
#include "device/launch.h"
#include "kernels/integers.cuh"

namespace duet {

/// How a sum of `depth` terms is cut: every split is depth_per_split long except the last.
struct SplitPlan {
  int splits = 1, depth_per_split = 0;
};

/// `tiles` blocks make one split; as many splits as give about blocks_wanted blocks, each a
/// multiple of `unit` long.
inline SplitPlan plan_split(int tiles, int depth, int unit, int blocks_wanted) {
  constexpr int kMostSplits = 256;
  const int units = ceil_div(depth, unit);
  const int splits = std::clamp(blocks_wanted / tiles, 1, std::min(units, kMostSplits));
  SplitPlan plan;
  plan.depth_per_split = ceil_div(units, splits) * unit;
  plan.splits = ceil_div(depth, plan.depth_per_split);
  return plan;
}

/// Floats between the partial results of two splits, each a rows x cols matrix and then a row of
/// row sums; a multiple of four, so that rows can be stored whole.
__host__ __device__ inline size_t partial_stride(int rows, int cols) {
  return (size_t(rows) * cols + rows + 3) / 4 * 4;
}

inline constexpr int kReduceThreads = 256;

// Mapping: so many slices of the splits a block, and elements along the rest: with few elements one
// thread a sum would be all latency.
template <int kSlices>
__global__ void __launch_bounds__(kReduceThreads)
    reduce_splits_kernel(const float* partial, int splits, size_t stride, int count,
                         int first_count, float* __restrict__ first, float* __restrict__ second) {
  constexpr int kLanes = kReduceThreads / kSlices;
  const int lane = threadIdx.x % kLanes, slice = threadIdx.x / kLanes;
  const int i = blockIdx.x * kLanes + lane;
  float total = 0.f;
  wait_for_primary();
  if (i < count)
#pragma unroll 8
    for (int s = slice; s < splits; s += kSlices) total += partial[s * stride + i];
  if constexpr (kSlices > 1) {
    __shared__ float slices[kSlices][kLanes];
    slices[slice][lane] = total;
    __syncthreads();
    if (slice == 0)
#pragma unroll
      for (int s = 1; s < kSlices; ++s) total += slices[s][lane];
  }
  if (slice != 0 || i >= count) return;
  if (i < first_count) {
    first[i] = total;
  } else if (second != nullptr) {
    second[i - first_count] = total;
  }
}

/// out[i] = sum over s of partial[s * stride + i] for i in [0, count); elements [0, first_count) go
/// to `first`, the rest to `second`, which may be nullptr. The kernel before it on the stream wrote
/// the partial results.
inline void launch_reduce_splits(const float* partial, int splits, size_t stride, int count,
                                 int first_count, float* first, float* second,
                                 cudaStream_t stream) {
  const auto launch_sliced = [&]<int kSlices>(std::integral_constant<int, kSlices>) {
    launch({.gridDim = static_cast<unsigned>(ceil_div(count, kReduceThreads / kSlices)),
            .blockDim = kReduceThreads,
            .stream = stream},
           {overlaps_primary()}, reduce_splits_kernel<kSlices>, partial, splits, stride, count,
           first_count, first, second);
  };
  splits < 16 ? launch_sliced(std::integral_constant<int, 1>{})
              : launch_sliced(std::integral_constant<int, 8>{});
}

// Mapping: a thread an element: images are large, their splits few.
template <Layout kLayout, class Function, class T>
__global__ void __launch_bounds__(256)
    sum_images_kernel(const float* partial, int splits, size_t stride, int count,
                      FastDivisor by_channels, FastDivisor by_pixels,
                      const float* __restrict__ bias, T* __restrict__ out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float shift = 0.f;
  if (bias != nullptr && i < count) {
    int plane = i, channel, rest;
    if constexpr (kLayout == Layout::kNCHW) by_pixels.divmod(i, plane, rest);
    by_channels.divmod(plane, rest, channel);
    shift = __ldg(bias + channel);
  }
  wait_for_primary();
  if (i >= count) return;
  float total = 0.f;
#pragma unroll 8
  for (int s = 0; s < splits; ++s) total += partial[s * stride + i];
  out[i] = T(Function()(total + shift));
}

/// out[i] = function(bias[channel of i] + sum over s of partial[s * stride + i]) for i in [0, count),
/// images of `channels` in kLayout; `bias` may be nullptr. The kernel before it on the stream wrote
/// the partial results.
template <Layout kLayout, class T, class Function = std::identity>
void launch_sum_images(const float* partial, int splits, size_t stride, int count, int channels,
                       int pixels, const float* bias, T* out, cudaStream_t stream, Function = {}) {
  constexpr int kThreads = 256;
  launch({.gridDim = static_cast<unsigned>(ceil_div(count, kThreads)),
          .blockDim = kThreads,
          .stream = stream},
         {overlaps_primary()}, sum_images_kernel<kLayout, Function, T>, partial, splits, stride,
         count, FastDivisor(channels), FastDivisor(pixels), bias, out);
}

}  // namespace duet
