// Outputs of the CPU references that are summed a term at a time, all over the tensor: in the
// output's own memory where it is stored as it is summed, else in the workspace, to be rounded
// once.
#pragma once

#include "core/parallel.h"
#include "core/storage.h"
#include "device/context.h"

namespace duet {

/// The workspace that sums_of(an output of this desc) needs.
inline size_t sum_bytes(const TensorDesc& output) {
  const DType accumulator = accumulator_of(output.dtype);
  if (accumulator == output.dtype) return 0;
  return static_cast<size_t>(output.elements()) * size_of(accumulator);
}

/// Memory for the sums of `output`, a value an element in its order. T is its C++ type.
template <class T>
Accumulator<T>* sums_of(const Tensor& output, const Run& run) {
  return static_cast<Accumulator<T>*>(sum_bytes(output.desc) ? run.workspace : output.memory);
}

/// Rounds `sums`, which are sums_of(output), to what `output` stores.
template <class T>
void store_sums(const Accumulator<T>* sums, const Tensor& output) {
  if (sum_bytes(output.desc) == 0) return;
  T* to = output.data<T>();
  parallel_ranges(output.elements(), 2, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) to[i] = T(sums[i]);
  });
}

}  // namespace duet
