#include "core/program.h"

#include "core/shell_word.h"

namespace duet {
namespace {

// With a slash at its end, as a shell reads it; or empty.
std::string& folder() {
  static std::string text;
  return text;
}

}  // namespace

std::string as_started(const std::string& command) { return folder() + command; }

void set_program(const char* path) {
  const std::string text = path ? path : "";
  const size_t slash = text.rfind('/');
  folder() = slash == std::string::npos ? "" : shell_word(text.substr(0, slash + 1));
}

}  // namespace duet
