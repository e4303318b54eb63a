// The labels of images that are mixed (mixup): of each row two classes, by shares. What reads either kind
// of labels takes a row of both as RowLabels.
#pragma once

#include <cstdint>

#include "core/host_device.h"
#include "core/labels.h"

namespace duet {

/// A row's label, that of the image mixed into it, and the share of the first in units of
/// 1 / kWholeShare.
struct MixedLabel {
  int32_t label, other, share;
};
inline constexpr int64_t kMixedWords = 3;  // of a MixedLabel
inline constexpr int32_t kWholeShare = 1 << 16;

/// int32 {N, kMixedWords}: a MixedLabel a row.
inline TensorDesc mixed_labels_desc(int64_t rows) { return {{rows, kMixedWords}, DType::kInt32}; }

/// True if those labels of `x` are mixed: of N x C alone, as {N, kMixedWords} of N x T x C are labels
/// of positions.
inline bool are_mixed(const TensorDesc& labels, const TensorDesc& x) {
  return x.shape.rank() == 2 && labels.shape.rank() == 2;
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

/// Labels that are `ignored` are returned as -1, which does not count.
DUET_HOST_DEVICE inline RowLabels labels_of_row(const int32_t* labels, bool mixed, int64_t row,
                                                int32_t ignored) {
  const auto kept = [ignored](int32_t label) { return label == ignored ? -1 : label; };
  if (!mixed) return {kept(labels[row]), kept(labels[row]), 1.0f};
  const MixedLabel& both = reinterpret_cast<const MixedLabel*>(labels)[row];
  const float share = static_cast<float>(both.share) * (1.0f / kWholeShare);
  if (share >= 0.5f) return {kept(both.label), kept(both.other), share};
  return {kept(both.other), kept(both.label), 1.0f - share};
}

}  // namespace duet
