// Texts in the order in which they first came, each once.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace duet {

class Distinct {
 public:
  void add(const std::string& text) {
    if (known_.insert(text).second) texts_.push_back(text);
  }
  const std::vector<std::string>& texts() const { return texts_; }
  bool has(const std::string& text) const { return known_.count(text) > 0; }

 private:
  std::vector<std::string> texts_;
  std::set<std::string> known_;
};

}  // namespace duet
