// Data sets by their keys, for tests.
#pragma once

#include <filesystem>
#include <string>

#include "data/set/dataset.h"

namespace duet {

/// The data set that this map of a configuration describes, in YAML: "{dataset: csv, ...}". Throws
/// ConfigError for mistakes in it, and what its load() throws.
Dataset load_data(const std::string& keys, const std::filesystem::path& data_dir = {});

}  // namespace duet
