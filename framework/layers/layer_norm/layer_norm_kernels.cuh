// What the kernels of layer normalisation share: the sums of a row on the way back, and how the
// gradients of weight and bias, sums over all rows, are put together.
#pragma once

#include "device/attribute.h"
#include "device/check.h"
#include "kernels/split_reduction.cuh"
#include "layers/layer_norm/layer_norm.h"

namespace duet::layer_norm {

/// What forward keeps of each row.
struct Statistics {
  float mean, inverse;  // 1 / sqrt(var + eps)
};

/// Over a row or over all rows: of dy (or g), and of dy (or g) times z.
struct Sums {
  float dy = 0.0f, product = 0.0f;
};
__device__ __forceinline__ Sums add(const Sums& a, const Sums& b) {
  return {a.dy + b.dy, a.product + b.product};
}

/// Blocks that share the rows of backward.
inline int64_t blocks_for(int64_t rows, int64_t rows_per_block, int blocks_per_multiprocessor) {
  const int64_t most = int64_t{blocks_per_multiprocessor} * multiprocessor_count();
  return std::min(most, (rows + rows_per_block - 1) / rows_per_block);
}

/// dweight and dbias from the parts that each block left in the workspace: dweight of every column,
/// then dbias.
inline size_t parts_bytes(int64_t blocks, int64_t columns) {
  return static_cast<size_t>(blocks * 2 * columns) * sizeof(float);
}
__device__ __forceinline__ void keep_part(float* parts, int columns, int column, const Sums& sums) {
  float* part = parts + static_cast<int64_t>(blockIdx.x) * 2 * columns;
  part[column] = sums.product;
  part[columns + column] = sums.dy;
}
inline void add_parts(const Run& run, int64_t blocks, int64_t columns, const Tensor& dweight,
                      const Tensor& dbias) {
  const int both = static_cast<int>(2 * columns);
  launch_reduce_splits(static_cast<const float*>(run.workspace), static_cast<int>(blocks),
                       static_cast<size_t>(both), both, static_cast<int>(columns),
                       dweight.data<float>(), dbias.data<float>(), run.stream());
}

inline std::optional<std::string> layout_unsupported(const LayerNormProblem& problem, Pass) {
  if (problem.x.shape.rank() == 4 && problem.x.layout == Layout::kNHWC) {
    return "takes nchw only, where a row's values are neighbours; give this layer layout: nchw";
  }
  return {};
}

}  // namespace duet::layer_norm
