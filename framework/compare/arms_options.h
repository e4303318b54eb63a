// What the arms of a comparison are made of. It includes nothing of the framework, so that who only asks for
// a comparison (compare.h) needs none of what makes one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace duet {

struct ArmsOptions {
  std::string config;  // path of the YAML file
  /// Families, ids or YAML files; an empty one is the first default arm that is not named, and no
  /// requests are all of these.
  std::vector<std::string> requests;
  std::vector<std::string> assignments;  // "a.b=value", for every arm
  std::optional<int64_t> epochs;
  bool part_of_run = false;  // train/setup.h
};

}  // namespace duet
