#include "core/timers.h"

#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace duet {

std::vector<int> running_timers() {
  std::vector<int> timers;
  for (const auto kind : {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF}) {
    itimerval value{};
    getitimer(kind, &value);
    if (value.it_value.tv_sec || value.it_value.tv_usec) timers.push_back(-1 - kind);
  }
  std::ifstream file("/proc/self/timers");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("ID:")) timers.push_back(std::atoi(line.c_str() + 3));
  }
  return timers;
}

void stop_timer(int timer) {
  const itimerval none{};
  if (timer < 0) {
    setitimer(static_cast<__itimer_which_t>(-1 - timer), &none, nullptr);
  } else {
    syscall(SYS_timer_delete, timer);
  }
}

}  // namespace duet
