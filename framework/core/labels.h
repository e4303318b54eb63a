// What the labels of a batch look like: what a batch is gathered into, and a loss reads.
#pragma once

#include <cstdint>

#include "core/host_device.h"
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

/// The labels of a row. `share` is that of `label`, at least 1/2; 1 where they are not mixed, and
/// `other` is the same then.
struct RowLabels {
  int label, other;
  float share;

  DUET_HOST_DEVICE bool count(int classes) const {
    return label >= 0 && label < classes && other >= 0 && other < classes;
  }
  /// The mean of value(label) by their shares.
  template <class Value>
  DUET_HOST_DEVICE auto mean(const Value& value) const {
    auto sum = value(label);
    if (share < 1.0f) sum = share * sum + (1.0f - share) * value(other);
    return sum;
  }
};

DUET_HOST_DEVICE inline RowLabels labels_of_row(const int32_t* labels, bool mixed, int64_t row) {
  if (!mixed) return {labels[row], labels[row], 1.0f};
  const int32_t* const columns = labels + row * kMixedColumns;
  const float share = static_cast<float>(columns[2]) * (1.0f / kWholeShare);
  if (share >= 0.5f) return {columns[0], columns[1], share};
  return {columns[1], columns[0], 1.0f - share};
}

}  // namespace duet
