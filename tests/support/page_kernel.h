// The files of kernels that docs/kernels-at-run-time.md shows.
#pragma once

#include <stdexcept>
#include <string>

#include "core/input_file.h"
#include "test_paths.h"

namespace duet {

/// The text behind "<!-- kernel: NAME -->".
inline std::string kernel_of_page(const std::string& name) {
  const std::string page = read_input_file(DUET_SOURCE_DIR "/docs/kernels-at-run-time.md", 1 << 20);
  const std::string begin = "<!-- kernel: " + name + " -->\n```cpp\n";
  const size_t at = page.find(begin);
  if (at == std::string::npos) throw std::runtime_error("the page shows no " + name);
  const size_t first = at + begin.size();
  return page.substr(first, page.find("```", first) - first);
}

}  // namespace duet
