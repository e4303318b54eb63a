#include "core/write_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "core/descriptor.h"
#include "core/error.h"

namespace duet {
namespace fs = std::filesystem;

namespace {

constexpr const char* kTemporary = ".duet.tmp";

std::string reason() { return errno ? std::strerror(errno) : "unknown reason"; }

// What the last of a chain of links names, whether it is there or not.
fs::path behind_links(fs::path path) {
  std::error_code error;
  for (int links = 0; links < 40 && fs::is_symlink(path, error); ++links) {
    path = path.parent_path() / fs::read_symlink(path, error);
  }
  return path;
}

// What is written first, to be renamed when it is whole. Threads that write one file do not share it.
fs::path temporary_of(const fs::path& target) {
  return target.string() + kTemporary + std::to_string(gettid());
}

bool is_thread_id(const std::string& text) {
  return !text.empty() && text.size() <= 10 && text[0] != '0' &&
         text.find_first_not_of("0123456789") == std::string::npos;
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

bool write_all_of(const Descriptor& file, const std::vector<std::string_view>& pieces) {
  return std::all_of(pieces.begin(), pieces.end(),
                     [&](std::string_view piece) { return write_all(file, piece); });
}

// The functions that follow return what went wrong, or nothing.

// Opening a pipe waits for a reader, who may never come: only for a moment here, as one that was started
// at the same time needs.
Descriptor open_device_or_pipe(const fs::path& path) {
  constexpr int kTries = 200;
  for (int i = 0;; ++i) {
    Descriptor file(path, O_WRONLY | O_NONBLOCK | O_NOCTTY);
    if (file) fcntl(file.get(), F_SETFL, fcntl(file.get(), F_GETFL) & ~O_NONBLOCK);
    if (file || errno != ENXIO || i == kTries) return file;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

std::string write_to(const fs::path& path, const fs::file_status& status,
                     const std::vector<std::string_view>& pieces) {
  Descriptor file = open_device_or_pipe(path);
  if (!file && fs::is_fifo(status) && errno == ENXIO) return "it is a pipe that nobody reads";
  return file && write_all_of(file, pieces) && file.close() ? "" : reason();
}

std::string replace(const fs::path& path, const fs::file_status& status,
                    const std::vector<std::string_view>& pieces) {
  const fs::path temporary = temporary_of(path);
  const auto failed = [&](const std::string& what) {
    const std::string why = what + reason();
    unlink(temporary.c_str());
    return why;
  };
  unlink(temporary.c_str());  // what is left of a process that was killed
  Descriptor file(temporary, O_WRONLY | O_CREAT | O_EXCL, 0666);
  if (!file) return reason();
  if (fs::exists(status)) fchmod(file.get(), static_cast<mode_t>(status.permissions()));
  if (!write_all_of(file, pieces)) return failed("");
  // The data must be on the disk before the name is: else a power cut could leave an empty file.
  if (fsync(file.get()) != 0 || !file.close()) return failed("");
  if (std::rename(temporary.c_str(), path.c_str()) != 0) return failed("cannot rename: ");
  const Descriptor folder(folder_of(path), O_RDONLY | O_DIRECTORY);
  // Some file systems cannot sync a folder; then the rename is as safe as they make it.
  if (folder && fsync(folder.get()) != 0 && errno == EIO) return "its folder: " + reason();
  return "";
}

// Why write_file() cannot write there, as far as that shows without trying.
std::string why_refused(const fs::path& path) {
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
  if (!is_replaced(path)) return "";
  return refused(behind_links(path).parent_path()) ? "its folder: " + reason() : "";
}

}  // namespace

std::string why_not_writable(const fs::path& path) {
  if (const std::string why = why_refused(path); !why.empty()) return why;
  if (!is_replaced(path)) return "";
  // Only trying tells whether its name is too long for this file system, and whatever else.
  const fs::path temporary = temporary_of(behind_links(path));
  unlink(temporary.c_str());
  if (!Descriptor(temporary, O_WRONLY | O_CREAT | O_EXCL, 0600)) return reason();
  unlink(temporary.c_str());
  return "";
}

bool is_replaced(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  return !fs::exists(status) || fs::is_regular_file(status);
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

void write_file(const fs::path& path, const std::string& text) { write_pieces(path, {text}); }

void write_pieces(const fs::path& path, const std::vector<std::string_view>& pieces) {
  std::string why = why_refused(path);
  if (why.empty()) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    why = is_replaced(path) ? replace(behind_links(path), status, pieces)
                            : write_to(path, status, pieces);
  }
  if (!why.empty()) throw RunError("cannot write " + path.string() + ": " + why);
}

void replace_file(const fs::path& path, const std::vector<std::string_view>& pieces) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_other(status)) fs::remove(path, error);
  write_pieces(path, pieces);
}

void remove_temporary_files(const fs::path& path) {
  const std::string start = path.filename().string() + kTemporary;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_of(path), ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(start) || !is_thread_id(name.substr(start.size()))) continue;
    if (entry.symlink_status(ignored).type() != fs::file_type::regular) continue;
    fs::remove(entry.path(), ignored);
  }
}

}  // namespace duet
