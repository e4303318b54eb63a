// Samples for the tests of batches: every byte follows from its place, every label is its sample's
// number.
#pragma once

#include "data/dataset.h"

namespace duet {

inline DatasetInfo make_info(int64_t channels, int64_t height, int64_t width) {
  DatasetInfo info{"test", channels, height, width, 10, {}, {}};
  for (int64_t c = 0; c < channels; ++c) {
    info.mean.push_back(0.2860 + 0.1 * static_cast<double>(c));
    info.stddev.push_back(0.3530 - 0.05 * static_cast<double>(c));
  }
  return info;
}

inline Split make_split(const DatasetInfo& info, int64_t count) {
  Split split{count, {}, {}};
  for (int64_t i = 0; i < count * info.channels * info.height * info.width; ++i) {
    split.images.push_back(static_cast<uint8_t>(i * 37 + i / 256));
  }
  for (int64_t i = 0; i < count; ++i) split.labels.push_back(static_cast<int32_t>(i));
  return split;
}

}  // namespace duet
