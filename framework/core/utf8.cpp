#include "core/utf8.h"

namespace duet {
namespace {

// Bytes of the character that `lead` begins; 0 if none begins with it.
size_t length_of(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  return lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

bool is_character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (text.size() == 1) return true;
  const unsigned char least = byte(0) == 0xe0 ? 0xa0 : byte(0) == 0xf0 ? 0x90 : 0x80;
  const unsigned char most = byte(0) == 0xed ? 0x9f : byte(0) == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < least || byte(1) > most) return false;
  for (size_t i = 2; i < text.size(); ++i) {
    if ((byte(i) & 0xc0) != 0x80) return false;
  }
  return true;
}

}  // namespace

size_t first_not_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const size_t length = length_of(static_cast<unsigned char>(text[i]));
    if (length == 0 || i + length > text.size() || !is_character(text.substr(i, length))) return i;
    i += length;
  }
  return text.npos;
}

}  // namespace duet
