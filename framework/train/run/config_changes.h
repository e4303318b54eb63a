// What differs between two configurations, as a resumed run or an evaluation needs to know.
#pragma once

#include <string>
#include <vector>

#include "core/config.h"

namespace duet {

struct ConfigChange {
  enum class Kind {
    kTraining,        // another network, another training, or other kernels under one name
    kImplementation,  // who computes it and how: the same up to rounding
    kLength,          // where it begins, how many epochs, how many lines of metrics
  };
  std::string key;  // "optimizer.learning_rate", "layers.conv1.kernel"
  std::string before, now;
  Kind kind = Kind::kTraining;
  bool of_results = false;  // the same parameters give other results, beyond rounding
};

/// `config` with the keys that this version knows, without those that say what their absence does:
/// two that mean the same are then the same. What this version cannot read is left as it is.
ConfigNode resolved(ConfigNode config);

/// The keys whose values differ, by name. Values are compared by meaning: 0.001 is 1e-3, and
/// [3, 3] is 3. Layers are known by their names. REQUIRES: both are resolved().
std::vector<ConfigChange> config_changes(const ConfigNode& before, const ConfigNode& now);

/// "optimizer.learning_rate: 0.01 -> 0.1"
std::string to_string(const ConfigChange& change);

}  // namespace duet
