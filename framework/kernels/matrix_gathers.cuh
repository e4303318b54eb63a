// Operands of a product (kernels/product.cuh) that are matrices, and others whose elements lie at the
// sum of two offsets.
#pragma once

#include "kernels/vector.cuh"

namespace duet {

/// V neighbouring values, or zeros without an access.
template <int V, class T>
__device__ __forceinline__ void read_if(bool inside, const T* __restrict__ from, int offset,
                                        Packed<T, V>& value) {
  value = {};
  if (inside) value = Packed<T, V>::load(from + offset);
}

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
  const T* __restrict__ data;
  __device__ __forceinline__ void fetch(Row row, const Col& col, Packed<T, vec>& value) const {
    const bool inside = (row | col.offset) >= 0;
    read_if(inside, data, row + col.offset, value);
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
