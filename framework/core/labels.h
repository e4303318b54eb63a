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

/// The labels of `x`, not mixed: one a row of N x C, and one a position of N x T x C, int32 {N, T}.
inline TensorDesc labels_beside(const TensorDesc& x) {
  if (x.shape.rank() == 3) return {{x.shape[0], x.shape[1]}, DType::kInt32};
  return labels_desc(x.shape[0]);
}

/// True if those labels of `x` are mixed: of N x C alone, as {N, kMixedColumns} of N x T x C are
/// labels of positions.
inline bool are_mixed(const TensorDesc& labels, const TensorDesc& x) {
  return x.shape.rank() == 2 && labels.shape.rank() == 2;
}

/// No label is this class: nothing is ignored.
inline constexpr int32_t kNoClass = -1;

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

/// Labels that are `ignored` are returned as -1, which does not count.
DUET_HOST_DEVICE inline RowLabels labels_of_row(const int32_t* labels, bool mixed, int64_t row,
                                                int32_t ignored) {
  const auto kept = [ignored](int32_t label) { return label == ignored ? -1 : label; };
  if (!mixed) return {kept(labels[row]), kept(labels[row]), 1.0f};
  const int32_t* const columns = labels + row * kMixedColumns;
  const float share = static_cast<float>(columns[2]) * (1.0f / kWholeShare);
  if (share >= 0.5f) return {kept(columns[0]), kept(columns[1]), share};
  return {kept(columns[1]), kept(columns[0]), 1.0f - share};
}

}  // namespace duet
