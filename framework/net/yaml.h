// YAML in and out of the neutral configuration tree (core/config.h).
#pragma once

#include <string>

#include "core/config.h"

namespace duet {

/// Reads a file. Throws ConfigError: missing, empty, not UTF-8, not YAML, or a key given twice.
ConfigNode read_yaml_file(const std::string& path);
/// Parses text; `name` stands for the file in messages.
ConfigNode read_yaml(const std::string& text, const std::string& name);
/// The tree as YAML; read_yaml(write_yaml(tree)) gives the same tree.
std::string write_yaml(const ConfigNode& node);

/// Applies "a.b=value" to the tree, adding keys as needed; the value is YAML. In a list a part is
/// an item's `name`, which may hold dots, or its index: "layers.conv1.backend=cudnn". Throws
/// ConfigError.
void set_value(ConfigNode& root, const std::string& assignment);
/// Whether all that stands before the last part of the path is there.
bool has_place_for(const ConfigNode& root, const std::string& assignment);

}  // namespace duet
