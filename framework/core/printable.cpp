#include "core/printable.h"

#include "core/number_text.h"

namespace duet {
namespace {

constexpr size_t kMost = 200;

bool is_c1(std::string_view text, size_t i) {  // in UTF-8: c2 80 to c2 9f
  return static_cast<unsigned char>(text[i]) == 0xc2 && i + 1 < text.size() &&
         (static_cast<unsigned char>(text[i + 1]) & 0xe0) == 0x80;
}

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  size_t end_of_c1 = 0, whole = 0;  // `whole`: up to where it may be cut
  for (size_t i = 0; i < text.size() && shown.size() <= kMost; ++i) {
    if (is_c1(text, i)) end_of_c1 = i + 2;
    if (shown.size() <= kMost - 3 && !continues_character(text[i])) whole = shown.size();
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool control = byte < 0x20 || byte == 0x7f || i < end_of_c1;
    shown += control ? printed("\\x%02x", byte) : std::string(1, text[i]);
  }
  return shown.size() <= kMost ? shown : shown.substr(0, whole) + "...";
}

}  // namespace duet
