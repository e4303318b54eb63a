// Words of a shell's command line.
#pragma once

#include <string>

namespace duet {

/// The text as one word: in quotes if it means something to a shell.
std::string shell_word(const std::string& text);

}  // namespace duet
