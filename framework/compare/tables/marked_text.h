// The part of a page that a program writes: between two lines, each of which stands there once.
#pragma once

#include <filesystem>
#include <string>

namespace duet {

struct MarkedText {
  std::string page;   // all of it
  size_t begin, end;  // the part between the lines

  std::string text() const { return page.substr(begin, end - begin); }
  /// The page with `text` there, in the page's line ends.
  std::string with(const std::string& text) const;
};

/// `first` and `last` are whole lines without their ends: "<!-- bench:conv2d -->", "<!-- /bench
/// -->". Throws DataError if the file cannot be read, ConfigError if the lines do not stand in it.
MarkedText read_marked_text(const std::filesystem::path& file, const std::string& first,
                            const std::string& last);

}  // namespace duet
