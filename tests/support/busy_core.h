// A core that other processes want too.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <vector>

namespace duet {

/// While it lives, the calling thread shares its core with busy loops in child processes. The other
/// cores are left alone.
class BusyCore {
 public:
  explicit BusyCore(int loops);
  ~BusyCore();
  BusyCore(const BusyCore&) = delete;
  BusyCore& operator=(const BusyCore&) = delete;

 private:
  cpu_set_t before_;
  std::vector<pid_t> loops_;
};

}  // namespace duet
