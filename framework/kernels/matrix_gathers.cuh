// Operands of a product (kernels/product.cuh) that are matrices, and others whose elements lie at the
// sum of two offsets.
#pragma once

#include "kernels/vector.cuh"

namespace duet {

// Where the element of a row and a k is the sum of two offsets; a negative one is outside.
template <int vec, bool row_lanes, class T>
struct OffsetGather {
  static constexpr int kVec = vec;
  static constexpr bool kRowLanes = row_lanes;
  using Value = T;
  using Row = int;
  struct Col {
    int offset, unused;
  };
  const T* __restrict__ from;
  __device__ __forceinline__ const T* data() const { return from; }
  __device__ __forceinline__ int offset(Row row, const Col& col) const {
    return (row | col.offset) < 0 ? -1 : row + col.offset;
  }
};

// A row-major matrix [rows][depth].
template <int vec, class T = float>
struct MatrixByDepth : OffsetGather<vec, false, T> {
  using Col = typename OffsetGather<vec, false, T>::Col;
  int rows, depth;
  __device__ __forceinline__ int row(int i) const { return i < rows ? i * depth : -1; }
  __device__ __forceinline__ Col col(int k) const { return {k, 0}; }
};

// A row-major matrix [depth][rows]: its transpose is the operand.
template <int vec, class T = float>
struct MatrixByRow : OffsetGather<vec, true, T> {
  using Col = typename OffsetGather<vec, true, T>::Col;
  int rows;
  __device__ __forceinline__ int row(int i) const { return i < rows ? i : -1; }
  __device__ __forceinline__ Col col(int k) const { return {k < 0 ? -1 : k * rows, 0}; }
};

}  // namespace duet
