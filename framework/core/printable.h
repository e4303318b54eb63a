// Text of others in messages.
#pragma once

#include <string>
#include <string_view>

namespace duet {

/// `text` as it may stand in a message, whoever wrote it: control characters, which a terminal
/// would follow, as "\x1b", and at most 200 bytes, the last of them "..." where it is longer. Other
/// bytes stay, UTF-8 or not.
std::string printable(std::string_view text);

}  // namespace duet
