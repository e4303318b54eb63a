// What the labels of a batch look like: what a batch is gathered into, and a loss reads.
#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace duet {

/// A row of mixed labels: its label, that of the image mixed into it, and the share of the first in
/// units of 1 / kWholeShare.
inline constexpr int64_t kMixedColumns = 3;
inline constexpr int32_t kWholeShare = 1 << 16;

/// int32 {N}: a label a row; or mixed int32 {N, kMixedColumns}.
inline TensorDesc labels_desc(int64_t rows, bool mixed = false) {
  return {mixed ? Shape{rows, kMixedColumns} : Shape{rows}, DType::kInt32};
}

}  // namespace duet
