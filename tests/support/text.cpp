#include "support/text.h"

#include <sstream>

namespace duet {

testing::AssertionResult has(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    if (text.find(part) == std::string::npos) {
      return testing::AssertionFailure() << "no '" << part << "' in: " << text;
    }
  }
  return testing::AssertionSuccess();
}

std::string changed(std::string text,
                    const std::vector<std::pair<std::string, std::string>>& changes) {
  for (const auto& [from, to] : changes) {
    EXPECT_TRUE(has(text, from));
    if (const size_t at = text.find(from); at != text.npos) text.replace(at, from.size(), to);
  }
  return text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace duet
