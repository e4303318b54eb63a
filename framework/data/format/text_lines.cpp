#include "data/format/text_lines.h"

#include "core/error.h"
#include "data/set/dataset_file.h"

namespace duet {
namespace {

constexpr size_t kTextChunk = size_t{1} << 16;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

void take_line(const std::filesystem::path& file, int64_t number, std::string_view text,
               const std::function<void(const TextLine& line)>& take) {
  if (number == 1 && text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  if (text.ends_with('\r')) text.remove_suffix(1);
  const TextLine line{file, number, text};
  if (text.size() > kMostLineBytes) {
    line.fail("is longer than " + std::to_string(kMostLineBytes) + " bytes");
  }
  if (text.find('\0') != std::string_view::npos) {
    line.fail("holds a byte 0: is it text? UTF-16 has to be saved as UTF-8");
  }
  take(line);
}

}  // namespace

void TextLine::fail(const std::string& what) const {
  throw DataError(file.string() + ":" + std::to_string(number) + ": " + what);
}

std::vector<std::string_view> TextLine::fields(char separator) const {
  std::vector<std::string_view> parts;
  for (size_t begin = 0;;) {
    const size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

void read_lines(const std::filesystem::path& path,
                const std::function<void(const TextLine& line)>& take) {
  DatasetFile file(path);
  std::string text;  // what is read and not yet taken
  int64_t number = 0;
  uint64_t total = 0;
  for (bool at_end = false; !at_end;) {
    const size_t kept = text.size();
    text.resize(kept + kTextChunk);
    const size_t got = file.read(text.data() + kept, kTextChunk);
    text.resize(kept + got);
    at_end = got < kTextChunk;
    total += got;
    if (total > kMostTextBytes) {
      throw DataError(path.string() + ": is longer than " + std::to_string(kMostTextBytes >> 20) +
                      " MiB");
    }
    size_t begin = 0;
    for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
      take_line(path, ++number, std::string_view(text).substr(begin, end - begin), take);
    }
    text.erase(0, begin);
    if (at_end && !text.empty()) take_line(path, ++number, text, take);
    if (!at_end && text.size() > kMostLineBytes) {
      TextLine{path, number + 1, {}}.fail("is longer than " + std::to_string(kMostLineBytes) +
                                          " bytes");
    }
  }
}

}  // namespace duet
