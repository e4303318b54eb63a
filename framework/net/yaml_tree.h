// The text of one YAML document as a tree, whose size stays bounded whatever the text is.
#pragma once

#include <stdexcept>
#include <string>

#include "core/config.h"

namespace duet {

// Far beyond any network.
inline constexpr size_t kMostYamlBytes = 1 << 20;
inline constexpr size_t kMostYamlText = 4096;  // bytes of one value
inline constexpr size_t kMostYamlDepth = 50;

/// The text is no YAML, or goes beyond a bound, at `mark`.
class YamlError : public std::runtime_error {
 public:
  YamlError(Mark mark, const std::string& what) : std::runtime_error(what), mark(mark) {}
  Mark mark;
};

/// The only document of `text`; kNull if there is none. All of it must be UTF-8. Throws YamlError;
/// mistakes in keys go to `errors`.
ConfigNode parse_yaml(const std::string& text, ConfigErrors& errors);

/// True for what no name and no value may hold: new lines, tabs, escapes, ...
bool is_control_character(char c);

}  // namespace duet
