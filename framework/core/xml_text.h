// Text within HTML, SVG and other XML.
#pragma once

#include <string>
#include <string_view>

namespace duet {

/// The text as it reads in an element or an attribute.
inline std::string xml_text(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += letter;
    }
  }
  return escaped;
}

/// The first so many letters of `text`, which is UTF-8, and "…" for the others.
inline std::string shortened(std::string_view text, size_t most) {
  size_t letters = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((text[i] & 0xC0) == 0x80) continue;  // all but the first byte of a letter begin with 10
    if (++letters > most) return std::string(text.substr(0, i)) + "…";
  }
  return std::string(text);
}

}  // namespace duet
