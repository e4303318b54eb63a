// Timers of this process that send it a signal, which by default ends it.
#pragma once

#include <vector>

namespace duet {

/// Returns a number for each timer that is armed: the id of a timer made by timer_create(), and
/// -1 - kind for an interval timer of setitimer().
std::vector<int> running_timers();
/// Stops one of running_timers().
void stop_timer(int timer);

}  // namespace duet
