// What `data.augment` lists, for tests of augmented images.
#pragma once

#include <string>

#include "data/batch/augment.h"
#include "net/yaml.h"

namespace duet {

/// Throws ConfigError.
inline Augment read_augments(const std::string& list, int64_t channels, int64_t height,
                             int64_t width) {
  ConfigNode node = read_yaml("{augment: " + list + "}", "test");
  ConfigErrors errors("test");
  ConfigReader reader(node, "data", errors);
  const Augment augment = read_augment(reader, channels, height, width);
  reader.finish();
  errors.raise_if_any();
  return augment;
}

}  // namespace duet
