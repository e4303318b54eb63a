// The descriptors that a process has opened since: a death test's own are left alone.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <set>
#include <vector>

namespace duet {

class NewDescriptors {
 public:
  /// REQUIRES: made before those that are asked for.
  NewDescriptors() {
    for (int fd = 0; fd < kMost; ++fd) {
      if (fcntl(fd, F_GETFD) != -1) before_.insert(fd);
    }
  }
  std::vector<int> now() const {
    std::vector<int> all;
    for (int fd = 0; fd < kMost; ++fd) {
      if (!before_.contains(fd) && fcntl(fd, F_GETFD) != -1) all.push_back(fd);
    }
    return all;
  }

 private:
  static constexpr int kMost = 64;
  std::set<int> before_;
};

}  // namespace duet
