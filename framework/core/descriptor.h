// A file descriptor, and writing all of something to it.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string_view>

namespace duet {

/// Closed at the end of its scope.
class Descriptor {
 public:
  Descriptor() = default;
  /// Takes over an open descriptor, and closes it at the end.
  explicit Descriptor(int fd) : fd_(fd) {}
  /// Opens; false as a bool, with errno set, if that fails.
  Descriptor(const std::filesystem::path& path, int flags, mode_t mode = 0);
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;

  explicit operator bool() const { return fd_ >= 0; }
  int get() const { return fd_; }
  /// False, with errno set, if closing tells of a failed write.
  bool close();

 private:
  int fd_ = -1;
};

/// False, with errno set, if not all of it could be written.
bool write_all(const Descriptor& file, std::string_view bytes);

/// Opens a file of Duet's own to append to it, or makes it. A link of either kind is refused, as another
/// file would be written, and so is a pipe or a device, where opening could wait for ever. Throws RunError.
Descriptor open_own_file(const std::filesystem::path& path);

}  // namespace duet
