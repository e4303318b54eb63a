#include "train/write_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "core/error.h"

namespace duet {
namespace fs = std::filesystem;

namespace {

std::string reason() { return errno ? std::strerror(errno) : "unknown reason"; }

// What the last of a chain of links names, whether it is there or not.
fs::path behind_links(fs::path path) {
  std::error_code error;
  for (int links = 0; links < 40 && fs::is_symlink(path, error); ++links) {
    path = path.parent_path() / fs::read_symlink(path, error);
  }
  return path;
}

// What is written first, to be renamed when it is whole.
fs::path temporary_of(const fs::path& target) {
  return target.string() + ".tmp" + std::to_string(getpid());
}

}  // namespace

std::string why_not_writable(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) return "it is a folder";
  const auto refused = [](const fs::path& place) {
    return access(place.empty() ? "." : place.c_str(), W_OK) != 0;
  };
  if (fs::exists(status)) {
    constexpr fs::perms kWrite =
        fs::perms::owner_write | fs::perms::group_write | fs::perms::others_write;
    // root may write even there, but somebody has protected it.
    if ((status.permissions() & kWrite) == fs::perms::none) return "it is read-only";
    if (refused(path)) return reason();
  }
  if (fs::exists(status) && !fs::is_regular_file(status)) return "";
  const fs::path target = behind_links(path);
  if (refused(target.parent_path())) return "its folder: " + reason();
  // Only trying tells whether its name is too long for this file system, and whatever else.
  const fs::path temporary = temporary_of(target);
  const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return reason();
  ::close(file);
  ::unlink(temporary.c_str());
  return "";
}

bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error)) return true;
  const auto full = [&](const fs::path& path) {
    return fs::weakly_canonical(fs::absolute(behind_links(path)), error);
  };
  const fs::path known = full(a);
  return !known.empty() && known == full(b);
}

void write_file(const fs::path& path, const std::string& text) {
  const auto fail = [&](const std::string& why) {
    throw RunError("cannot write " + path.string() + ": " + why);
  };
  if (const std::string why = why_not_writable(path); !why.empty()) fail(why);
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  const bool replaces = !fs::exists(status) || fs::is_regular_file(status);
  const fs::path target = replaces ? behind_links(path) : path;
  const fs::path written = replaces ? temporary_of(target) : path;
  errno = 0;
  std::ofstream file(written, std::ios::trunc);
  file << text;
  file.close();
  if (file && !replaces) return;
  if (file && fs::exists(status)) fs::permissions(written, status.permissions(), error);
  if (file && std::rename(written.c_str(), target.c_str()) == 0) return;
  const std::string why = reason();
  if (replaces) std::remove(written.c_str());
  fail(why);
}

}  // namespace duet
