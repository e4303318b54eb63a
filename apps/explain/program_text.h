// Text of C++ for programs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace duet {

/// No line of a program is longer, where it can be broken.
inline constexpr size_t kColumns = 100;

/// A number or a text, in the place of "$name".
struct Filling {
  Filling(const char* name, const std::string& text) : name(name), text(text) {}
  Filling(const char* name, const char* text) : name(name), text(text) {}
  Filling(const char* name, int64_t number) : name(name), text(std::to_string(number)) {}
  std::string name, text;
};
/// `text` with all of them filled in; where one name begins another, the longer one counts.
std::string fill(const std::string& text, const std::vector<Filling>& fillings);

}  // namespace duet
