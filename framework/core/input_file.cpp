#include "core/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>

#include "core/error.h"

namespace duet {
namespace {

constexpr size_t kChunk = size_t{1} << 20;
constexpr int kMostJsonDepth = 64;
constexpr int64_t kMostJsonValues = 4'000'000;

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

// Identifies a file by device and inode: two paths of one file give the same.
using FileId = std::pair<dev_t, ino_t>;

FileId id_of(const struct stat& status) { return {status.st_dev, status.st_ino}; }

/// The files that were opened. Threads that read pictures add to them.
class ReadFiles {
 public:
  void add(FileId file) {
    const std::lock_guard lock(mutex_);
    files_.insert(file);
  }
  bool contains(FileId file) {
    const std::lock_guard lock(mutex_);
    return files_.contains(file);
  }

 private:
  std::mutex mutex_;
  std::set<FileId> files_;
};

ReadFiles& read_files() {
  static ReadFiles files;
  return files;
}

}  // namespace

InputFile::InputFile(const std::filesystem::path& path) : path_(path) {
  const auto fail = [&](const std::string& what) { throw DataError(path_.string() + ": " + what); };
  // Looked at before it is opened, which is noticed by who writes to a pipe, and again afterwards:
  // it may have been replaced in between.
  const auto expect_file = [&](int failed, const struct stat& status) {
    if (failed) fail(std::string("cannot open: ") + std::strerror(errno));
    if (!S_ISREG(status.st_mode)) {
      fail(std::string("is ") + kind_of(status.st_mode) +
           ", not a regular file; write what it should hold to a file first");
    }
    size_ = static_cast<uint64_t>(status.st_size);
  };
  struct stat status {};
  expect_file(::stat(path.c_str(), &status), status);
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  try {
    expect_file(fd_ < 0 ? -1 : ::fstat(fd_, &status), status);
  } catch (...) {
    if (fd_ >= 0) ::close(fd_);
    throw;
  }
  read_files().add(id_of(status));
}

bool InputFile::was_read(const std::filesystem::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && read_files().contains(id_of(status));
}

InputFile::~InputFile() { ::close(fd_); }

size_t InputFile::read(uint64_t offset, void* to, size_t bytes) const {
  size_t total = 0;
  while (total < bytes) {
    const ssize_t got = ::pread(fd_, static_cast<char*>(to) + total, bytes - total,
                                static_cast<off_t>(offset + total));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      throw DataError(path_.string() + ": offset " + std::to_string(offset + total) +
                      ": cannot read: " + std::strerror(errno));
    }
    if (got == 0) break;
    total += static_cast<size_t>(got);
  }
  return total;
}

std::string read_input_file(const std::filesystem::path& path, uint64_t most) {
  const InputFile file(path);
  const auto check = [&](uint64_t size) {
    if (size <= most) return;
    throw DataError(path.string() + ": has " + std::to_string(size) + " bytes or more; at most " +
                    std::to_string(most) + " are expected of such a file");
  };
  check(file.size());
  std::string text;
  for (;;) {  // a file of /proc has a size of 0, and others may grow
    const size_t size = text.size();
    const size_t wanted =
        size == 0 ? std::max(kChunk, static_cast<size_t>(file.size()) + 1) : kChunk;
    text.resize(size + wanted);
    const size_t got = file.read(size, text.data() + size, wanted);
    text.resize(size + got);
    check(text.size());
    if (got < wanted) return text;
  }
}

void check_json_bounds(const std::string& text) {
  int depth = 0;
  int64_t values = 0;
  const auto fail = [&](size_t i, const std::string& what) {
    throw DataError("offset " + std::to_string(i) + ": " + what);
  };
  for (size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
      case '"':  // to the closing one
        for (++i; i < text.size() && text[i] != '"'; ++i) {
          if (text[i] == '\\') ++i;
        }
        break;
      case '[':
      case '{':
        ++values;  // as many as brackets and commas, or one more
        if (++depth > kMostJsonDepth) {
          fail(i, "JSON nested more than " + std::to_string(kMostJsonDepth) + " deep");
        }
        break;
      case ']':
      case '}':
        --depth;
        break;
      case ',':
        ++values;
        break;
      case '\0':
        fail(i, "a byte 0, which JSON cannot hold");
    }
    if (values > kMostJsonValues) {
      fail(i, "JSON of more than " + std::to_string(kMostJsonValues) + " values");
    }
  }
}

}  // namespace duet
