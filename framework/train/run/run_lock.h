// One process at a time writes into a run's folder.
#pragma once

#include <filesystem>

#include "core/descriptor.h"

namespace duet {

/// Holds the file ".duet-lock" in a folder, with this process's id as its text, and removes it at
/// the end. A process that is killed leaves the file, but holds it no longer. What has this name
/// and is no such file is left as it is.
class RunLock {
 public:
  /// Throws ConfigError, with the id of the process that holds the lock, or with the reason why the
  /// folder cannot be written to, or if something else has the lock's name. A file system without
  /// locks is warned about. REQUIRES: the folder is there.
  explicit RunLock(const std::filesystem::path& folder);
  ~RunLock();
  RunLock(RunLock&&) = default;
  RunLock& operator=(RunLock&& other) noexcept;  // `other` releases what this one held

  /// Throws ConfigError if a process holds the lock of `folder`, which need not be there. Changes
  /// nothing.
  static void check_free(const std::filesystem::path& folder);

 private:
  std::filesystem::path path_;
  Descriptor file_;
};

}  // namespace duet
