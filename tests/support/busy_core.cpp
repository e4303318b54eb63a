#include "support/busy_core.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace duet {

BusyCore::BusyCore(int loops) {
  sched_getaffinity(0, sizeof before_, &before_);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  sched_setaffinity(0, sizeof one, &one);
  for (int i = 0; i < loops; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (volatile unsigned count = 0;;) count = count + 1;
    }
    if (child > 0) loops_.push_back(child);
  }
}

BusyCore::~BusyCore() {
  for (const pid_t child : loops_) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  sched_setaffinity(0, sizeof before_, &before_);
}

}  // namespace duet
