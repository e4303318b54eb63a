#include "train/run_lock.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "core/error.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

// Who holds the lock; it may be about to write its id.
std::string holder(const Descriptor& file) {
  for (int i = 0; i < 20; ++i) {
    char text[32];
    const ssize_t bytes = pread(file.get(), text, sizeof text, 0);
    if (bytes > 0) return "process " + std::string(text, static_cast<size_t>(bytes));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return "another process";
}

// False if there are no locks here. Throws if somebody else has it.
bool lock(const Descriptor& file, const fs::path& folder) {
  while (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return false;
    throw ConfigError(folder.string() + ": " + holder(file) +
                      " is writing into this run folder; wait for its end, or choose another "
                      "folder with --out DIR");
  }
  return true;
}

// Its last holder may have removed it after it was opened here: then another may lock a new one.
bool is_named(const Descriptor& file, const fs::path& path) {
  struct stat opened, named;
  return fstat(file.get(), &opened) == 0 && stat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

}  // namespace

RunLock::RunLock(const fs::path& folder) : path_(folder / "lock") {
  for (int i = 0; i < 100; ++i) {
    file_ = Descriptor(path_, O_RDWR | O_CREAT, 0666);
    if (!file_) {
      throw ConfigError(folder.string() + ": cannot write to this output folder: " +
                        std::strerror(errno) + "; choose another with --out DIR");
    }
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
  if (file_) unlink(path_.c_str());  // while it is held
}

}  // namespace duet
