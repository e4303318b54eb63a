#include "plain_text.h"

namespace duet {
namespace {

/// The axes in the order in which they lie in memory.
std::vector<size_t> memory_order(Layout layout) {
  return layout == Layout::kNCHW ? std::vector<size_t>{0, 1, 2, 3}
                                 : std::vector<size_t>{0, 2, 3, 1};
}

std::string in_parentheses(const std::string& size) {
  return size.find(' ') == std::string::npos ? size : "(" + size + ")";
}

}  // namespace

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

std::string index_function(const std::string& name, const std::vector<std::string>& letters,
                           const std::vector<std::string>& sizes, Layout layout) {
  std::string parameters, index;
  for (const std::string& letter : letters) {
    parameters += (parameters.empty() ? "int " : ", int ") + letter;
  }
  for (const size_t axis : memory_order(layout)) {
    if (index.empty()) {
      index = "size_t(" + letters[axis] + ")";
      continue;
    }
    const bool first = index.find('*') == std::string::npos;
    index = (first ? index : "(" + index + ")") + " * " + in_parentheses(sizes[axis]) + " + " +
            letters[axis];
  }
  return "size_t " + name + "(" + parameters + ") { return " + index + "; }\n";
}

std::string split_index(const std::vector<std::string>& letters,
                        const std::vector<std::string>& sizes, Layout layout) {
  std::string text, divisor;
  const std::vector<size_t> order = memory_order(layout);
  for (size_t k = order.size(); k-- > 0;) {
    const size_t axis = order[k];
    text += (text.empty() ? "  const int " : ", ") + letters[axis] + " = int(i" + divisor;
    if (k > 0) text += " % " + in_parentheses(sizes[axis]);
    text += ")";
    divisor += " / " + in_parentheses(sizes[axis]);
  }
  return text + ";\n";
}

std::string keep_all(const std::string& name, int64_t count) {
  return fill(R"(  $name_values.resize($count);
  for (size_t i = 0; i < $name_values.size(); ++i) $name_values[i] = float(plain_$name(i).value);
)",
              {{"name", name}, {"count", count}});
}

}  // namespace duet
