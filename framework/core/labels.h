// What the labels of a batch look like: what a batch is gathered into, and a loss reads. Those of a
// training with mixup are of a kind of their own (core/mixed_labels.h).
#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace duet {

/// int32 {N}: a label a row.
inline TensorDesc labels_desc(int64_t rows) { return {{rows}, DType::kInt32}; }

/// The labels of `x`: one a row of N x C, and one a position of N x T x C, int32 {N, T}.
inline TensorDesc labels_beside(const TensorDesc& x) {
  if (x.shape.rank() == 3) return {{x.shape[0], x.shape[1]}, DType::kInt32};
  return labels_desc(x.shape[0]);
}

/// No label is this class: nothing is ignored.
inline constexpr int32_t kNoClass = -1;

}  // namespace duet
