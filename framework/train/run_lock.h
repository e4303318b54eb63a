// One process at a time writes into a run's folder.
#pragma once

#include <filesystem>

#include "train/descriptor.h"

namespace duet {

/// Holds the file "lock" in a folder, with this process's id as its text, and removes it at the
/// end. A process that is killed leaves the file, but holds it no longer.
class RunLock {
 public:
  /// Throws ConfigError, with the id of the process that holds the lock, or with the reason why the
  /// folder cannot be written to. A file system without locks is warned about. REQUIRES: the folder
  /// is there.
  explicit RunLock(const std::filesystem::path& folder);
  ~RunLock();
  RunLock(RunLock&&) = default;
  RunLock& operator=(RunLock&& other) noexcept;  // `other` releases what this one held

 private:
  std::filesystem::path path_;
  Descriptor file_;
};

}  // namespace duet
