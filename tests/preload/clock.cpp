// A library for LD_PRELOAD under which every clock stands still, or with DUET_CLOCK=backward goes
// back by 1 ms at each look.
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <atomic>

extern "C" int clock_gettime(clockid_t, timespec* now) {
  static std::atomic<long> looks = 0;
  const char* how = getenv("DUET_CLOCK");
  const bool backward = how && strcmp(how, "backward") == 0;
  const long milliseconds = backward ? 1'000'000'000 - ++looks : 1'000'000'000;
  *now = {milliseconds / 1000, milliseconds % 1000 * 1'000'000};
  return 0;
}
