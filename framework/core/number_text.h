// Numbers as text and back, the same in every locale. A program that Duet runs in may have set one, with
// setlocale() or std::locale::global(), in which 0.5 is "0,5" and 1000 is "1.000". What is written by
// std::to_chars, std::to_string of whole numbers or fmt::format, and read by std::from_chars, asks no locale.
#pragma once

#include <sstream>
#include <string>

namespace duet {

/// What std::printf writes in the locale "C".
[[gnu::format(printf, 1, 2)]] std::string printed(const char* format, ...);

/// The number at the beginning of a text, as std::strtod reads it in the locale "C"; `end`, if not
/// nullptr, is set to what follows it, or to `text` if there is none.
double read_number(const char* text, char** end = nullptr);

/// A std::ostringstream that writes numbers as in the locale "C".
class TextStream : public std::ostringstream {
 public:
  TextStream() { imbue(std::locale::classic()); }
};

}  // namespace duet
