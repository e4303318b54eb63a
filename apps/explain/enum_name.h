// The names of enumerators, which GCC and Clang spell out in the name of a template instance.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace duet::recorder {

template <auto value>
constexpr std::string_view spelled() {
  std::string_view text = __PRETTY_FUNCTION__;  // "... [with auto value = CUDNN_DATA_FLOAT; ..."
  text.remove_prefix(text.find("value = ") + 8);
  return text.substr(0, text.find_first_of(";]"));
}

template <class E>
constexpr std::string_view enum_type() {
  std::string_view text = __PRETTY_FUNCTION__;
  text.remove_prefix(text.find("E = ") + 4);
  return text.substr(0, text.find_first_of(";]"));
}

/// The first of 256 values from -1 on; a value that has no name is spelled "(type)7".
template <class E, int... offsets>
constexpr auto names_of(std::integer_sequence<int, offsets...>) {
  return std::array<std::string_view, sizeof...(offsets)>{
      spelled<static_cast<E>(offsets - 1)>()...};
}

template <class E>
std::string enum_name(E value) {
  static constexpr auto names = names_of<E>(std::make_integer_sequence<int, 257>());
  const int number = static_cast<int>(value);
  // Of two names of one value the compiler takes the first, which is the older.
  constexpr std::string_view kOld = "CUBLAS_GEMM_DFALT";
  if (number == -1 && names[0] == kOld) return "CUBLAS_GEMM_DEFAULT";
  if (number >= -1 && number < 256 && names[number + 1].front() != '(') {
    return std::string(names[number + 1]);
  }
  return "static_cast<" + std::string(enum_type<E>()) + ">(" + std::to_string(number) + ")";
}

}  // namespace duet::recorder
