// The text files of Tiny-ImageNet.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace duet {

struct Annotation {
  std::string picture;  // a file name
  int32_t label;        // the place of its class in `ids`
  int64_t line;
};

/// Lines of a picture's name, its class and a box (not read), with tabs between. Throws DataError
/// with file and line: fewer parts, a name that is a path or comes twice, a class not in `ids`.
/// REQUIRES: `ids` is sorted.
std::vector<Annotation> read_annotations(const std::filesystem::path& file,
                                         const std::vector<std::string>& ids);

/// What words.txt (lines of a class and its names, with a tab between) calls each of `ids`. Throws
/// DataError where it says nothing of one.
std::vector<std::string> read_words(const std::filesystem::path& file,
                                    const std::vector<std::string>& ids);

}  // namespace duet
