#include "program_text.h"

namespace duet {

std::string fill(const std::string& text, const std::vector<Filling>& fillings) {
  std::string filled;
  for (size_t i = 0; i < text.size();) {
    const Filling* longest = nullptr;
    if (text[i] == '$') {
      for (const Filling& filling : fillings) {
        if (text.compare(i + 1, filling.name.size(), filling.name) != 0) continue;
        if (!longest || filling.name.size() > longest->name.size()) longest = &filling;
      }
    }
    if (longest) {
      filled += longest->text;
      i += 1 + longest->name.size();
    } else {
      filled += text[i++];
    }
  }
  return filled;
}

}  // namespace duet
