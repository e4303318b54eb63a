#include "train/run/run_lock.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "core/error.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = ".duet-lock";

void wait_a_moment() { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }

// What is there under the lock's name is opened so that nothing waits and no link is followed.
Descriptor open_lock(const fs::path& path, int flags) {
  return Descriptor(path, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0666);
}

// The id that a holder wrote; empty if it has not yet. Nothing if this is no lock's file.
std::optional<std::string> id_in(const Descriptor& file) {
  struct stat status;
  char text[32];
  if (fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  const ssize_t bytes = pread(file.get(), text, sizeof text, 0);
  if (bytes < 0 || bytes == sizeof text) return {};
  const std::string id(text, static_cast<size_t>(bytes));
  if (id.find_first_not_of("0123456789") != std::string::npos) return {};
  return id;
}

[[noreturn]] void refuse_file(const fs::path& path) {
  throw ConfigError(path.string() +
                    ": is not what a run locks its folder with; move it away, or choose another "
                    "folder with --out DIR");
}

// Throws with the id of who holds the lock; it may be about to write its id.
[[noreturn]] void refuse_held(const Descriptor& file, const fs::path& folder) {
  std::string id;
  for (int i = 0; i < 20 && id.empty(); ++i) {
    if (i > 0) wait_a_moment();
    id = id_in(file).value_or("");
  }
  throw ConfigError(folder.string() + ": " + (id.empty() ? "another process" : "process " + id) +
                    " is writing into this run folder; wait for its end, or choose another "
                    "folder with --out DIR");
}

// False, with errno set, if somebody has it or there are no locks here.
bool try_lock(const Descriptor& file, int kind) {
  int failed = 0;
  do {
    failed = flock(file.get(), kind | LOCK_NB);
  } while (failed && errno == EINTR);
  return !failed;
}

// False if there are no locks here. Throws if somebody else has it.
bool lock(const Descriptor& file, const fs::path& folder) {
  for (int i = 0; i < 4; ++i) {  // who only looks holds it for a moment
    if (i > 0) wait_a_moment();
    if (try_lock(file, LOCK_EX)) return true;
    if (errno != EWOULDBLOCK) return false;
  }
  refuse_held(file, folder);
}

// Its last holder may have removed it after it was opened here: then another may lock a new one.
bool is_named(const Descriptor& file, const fs::path& path) {
  struct stat opened, named;
  return fstat(file.get(), &opened) == 0 && lstat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

}  // namespace

RunLock::RunLock(const fs::path& folder) : path_(folder / kName) {
  for (int i = 0; i < 100; ++i) {
    file_ = open_lock(path_, O_RDWR | O_CREAT);
    if (!file_) {
      if (errno == ELOOP || errno == EISDIR || errno == ENXIO) refuse_file(path_);
      throw ConfigError(folder.string() + ": cannot write to this output folder: " +
                        std::strerror(errno) + "; choose another with --out DIR");
    }
    if (!id_in(file_)) refuse_file(path_);
    if (!lock(file_, folder)) {
      spdlog::warn("{}: cannot be locked ({}); see to it that no other process writes into it",
                   folder.string(), std::strerror(errno));
      return;
    }
    if (is_named(file_, path_)) break;
  }
  // Without its id, for instance on a full disk, the lock holds as well.
  if (ftruncate(file_.get(), 0) == 0) write_all(file_, std::to_string(getpid()));
}

RunLock& RunLock::operator=(RunLock&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(file_, other.file_);
  return *this;
}

RunLock::~RunLock() {
  if (file_ && is_named(file_, path_)) unlink(path_.c_str());  // while it is held
}

void RunLock::check_free(const fs::path& folder) {
  const Descriptor file = open_lock(folder / kName, O_RDONLY);
  if (!file || !id_in(file)) return;  // nothing there, or nothing to wait for
  if (!try_lock(file, LOCK_SH) && errno == EWOULDBLOCK) refuse_held(file, folder);
}

}  // namespace duet
