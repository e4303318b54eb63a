// Timers of this process that send it a signal, which by default ends it.
#pragma once

#include <vector>

namespace duet {

/// Interval timers (setitimer) that run, as -1 less their kind, and the ids of those that timer_create()
/// made.
std::vector<int> running_timers();
/// Stops one of running_timers().
void stop_timer(int timer);

}  // namespace duet
