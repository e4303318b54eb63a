#include "compare/tables/marked_text.h"

#include "core/error.h"
#include "core/input_file.h"

namespace duet {
namespace {

constexpr uint64_t kMostPageBytes = 64 << 20;  // of a page

}  // namespace

std::string MarkedText::with(const std::string& text) const {
  const bool crlf = begin >= 2 && page[begin - 2] == '\r';
  std::string ended;
  for (const char c : text) {
    if (crlf && c == '\n') ended += '\r';
    ended += c;
  }
  return page.substr(0, begin) + ended + page.substr(end);
}

MarkedText read_marked_text(const std::filesystem::path& file, const std::string& first,
                            const std::string& last) {
  MarkedText marked = {.page = read_input_file(file, kMostPageBytes)};
  const bool crlf = marked.page.find(first + "\r\n") != std::string::npos;
  const std::string line = first + (crlf ? "\r\n" : "\n");
  const size_t start = marked.page.find(line);
  marked.begin = start + line.size();
  marked.end = start == std::string::npos ? start : marked.page.find(last, marked.begin);
  // Up to the first ':' or blank: "<!-- bench".
  const std::string opening = first.substr(0, first.find_first_of(": ", 5));
  const bool alone = marked.end != std::string::npos &&
                     marked.page.find(line, marked.begin) == std::string::npos &&
                     marked.text().find(opening) == std::string::npos &&
                     marked.page[marked.end - 1] == '\n';
  if (!alone) {
    throw ConfigError(file.string() + ": the table belongs between one line '" + first +
                      "' and one line '" + last +
                      "' after it; put them where it should stand. Nothing was written");
  }
  return marked;
}

}  // namespace duet
