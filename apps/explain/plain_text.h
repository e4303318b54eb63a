// Text of C++ for plain_loops.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"

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

/// "size_t x_at(int n, int c, int h, int w) { return ...; }", of a tensor of four axes.
std::string index_function(const std::string& name, const std::vector<std::string>& letters,
                           const std::vector<std::string>& sizes, Layout layout);
/// A line that takes an index apart again: "const int w = ..., h = ...;".
std::string split_index(const std::vector<std::string>& letters,
                        const std::vector<std::string>& sizes, Layout layout);
/// Lines that store plain_NAME(i) for all i in NAME_values.
std::string keep_all(const std::string& name, int64_t count);

}  // namespace duet
