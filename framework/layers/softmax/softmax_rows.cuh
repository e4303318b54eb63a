// Rows of a softmax that a team of threads keeps in registers.
#pragma once

#include <cfloat>

#include "kernels/register_rows.cuh"

namespace duet::softmax_rows {

/// Of some values: the largest, and the sum of exp(value - max). Nothing at all, and -infinities
/// alone, are {-FLT_MAX, 0}: their max less another is a number.
struct Part {
  float max = -FLT_MAX, sum = 0.0f;
};
__device__ __forceinline__ Part join(const Part& a, const Part& b) {
  const float max = fmaxf(a.max, b.max);
  return {max, a.sum * expf(a.max - max) + b.sum * expf(b.max - max)};
}
/// Of a row, from each thread's part: all join the largest maximum at once, with one exponential a
/// thread where joining in pairs would take ten and more.
template <class F>
__device__ __forceinline__ Part join_row(const Part& own) {
  // region join
  const float max = F::combine_row(own.max, [](float a, float b) { return fmaxf(a, b); });
  const float sum =
      F::combine_row(own.sum * expf(own.max - max), [](float a, float b) { return a + b; });
  return {max, sum};
  // end join
}

/// The softmax of a row, as many values at a time as fit into the registers of its team.
template <class F, class T>
struct RowSoftmax {
  const T* x;
  int columns;
  float values[F::kValues];
  Part own, all;  // of `values`, and of the row

  __device__ __forceinline__ RowSoftmax(const T* row, int count) : x(row), columns(count) {
    F::for_each_piece(columns, [&](int begin) {
      read(begin);
      all = F::kWhole ? own : join(all, own);
    });
    all = join_row<F>(all);
  }
  /// values = softmax of the thread's columns behind `begin`.
  __device__ __forceinline__ void evaluate(int begin) {
    if (!F::kWhole && columns > F::kMost) read(begin);
    const float scale = expf(own.max - all.max) / all.sum;
#pragma unroll
    for (float& value : values) value *= scale;
  }

 private:
  /// values = exp(x - own.max)
  __device__ __forceinline__ void read(int begin) {
    // region read
    F::load_row(x + begin, columns - begin, -INFINITY, values);
    own = {};
#pragma unroll
    for (const float value : values) own.max = fmaxf(own.max, value);
#pragma unroll
    for (float& value : values) {
      value = expf(value - own.max);
      own.sum += value;
    }
    // end read
  }
};

}  // namespace duet::softmax_rows
