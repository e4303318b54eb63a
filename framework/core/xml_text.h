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

}  // namespace duet
