// Text that is kept as UTF-8: names in configurations, in checkpoints and in JSON.
#pragma once

#include <string_view>

namespace duet {

/// The offset of the first byte that is not part of UTF-8 text, as RFC 3629 defines it (no surrogates,
/// no longer forms than needed); npos if there is none.
size_t first_not_utf8(std::string_view text);
inline bool is_utf8(std::string_view text) { return first_not_utf8(text) == text.npos; }

}  // namespace duet
