#include "data/format/annotations.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/config.h"
#include "core/error.h"
#include "core/printable.h"
#include "data/format/text_lines.h"

namespace duet {
namespace {

std::string in_quotes(std::string_view text) { return "'" + printable(text) + "'"; }

}  // namespace

std::vector<Annotation> read_annotations(const std::filesystem::path& file,
                                         const std::vector<std::string>& ids) {
  std::vector<Annotation> annotations;
  std::set<std::string> seen;
  read_lines(file, [&](const TextLine& line) {
    if (line.text.empty()) return;
    const std::vector<std::string_view> fields = line.fields('\t');
    if (fields.size() < 2) {
      line.fail("expected a picture, its class and a box with tabs between, found " +
                in_quotes(line.text));
    }
    const std::string picture(fields[0]), id(fields[1]);
    if (picture.empty() || picture[0] == '.' || picture.find('/') != std::string::npos) {
      line.fail("expected the name of a picture, found " + in_quotes(picture));
    }
    if (!seen.insert(picture).second) line.fail(in_quotes(picture) + " is there twice");
    const auto found = std::lower_bound(ids.begin(), ids.end(), id);
    if (found == ids.end() || *found != id) {
      line.fail(in_quotes(id) + " is no class of the data set" + did_you_mean(printable(id), ids));
    }
    annotations.push_back({picture, static_cast<int32_t>(found - ids.begin()), line.number});
  });
  return annotations;
}

std::vector<std::string> read_words(const std::filesystem::path& file,
                                    const std::vector<std::string>& ids) {
  std::map<std::string, std::string> words;
  for (const std::string& id : ids) words[id] = "";
  read_lines(file, [&](const TextLine& line) {
    if (line.text.empty()) return;
    const size_t tab = line.text.find('\t');
    if (tab == std::string_view::npos) {
      line.fail("expected a class and its names with a tab between, found " + in_quotes(line.text));
    }
    const auto found = words.find(std::string(line.text.substr(0, tab)));
    if (found != words.end()) found->second = line.text.substr(tab + 1);
  });
  std::vector<std::string> names;
  for (const std::string& id : ids) {
    if (words[id].empty()) {
      throw DataError(file.string() + ": has no line for the class " + in_quotes(id));
    }
    names.push_back(words[id]);
  }
  return names;
}

}  // namespace duet
