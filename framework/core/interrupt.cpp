#include "core/interrupt.h"

#include <signal.h>
#include <time.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <iterator>

#include "core/error.h"
#include "core/running.h"

namespace duet {
namespace {

constexpr int kStops[] = {SIGINT, SIGTERM, SIGHUP};
constexpr int64_t kSameMilliseconds = 200;

std::atomic<bool> interrupted = false;                   // other threads look at it too
std::atomic<int64_t> first_at = 0;                       // of the first signal, in milliseconds
static_assert(std::atomic<bool>::is_always_lock_free &&  // what a handler may use
              std::atomic<int64_t>::is_always_lock_free);

struct sigaction before[std::size(kStops)], pipe_before;

int64_t milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return 1000 * static_cast<int64_t>(now.tv_sec) + now.tv_nsec / 1'000'000;
}

void on_signal(int signal) {
  const int error = errno;
  const int64_t now = milliseconds();
  if (!interrupted.exchange(true)) {
    first_at = now;
  } else if (now - first_at >= kSameMilliseconds) {
    write_running("ended while ");
    ::signal(signal, SIG_DFL);
    raise(signal);  // delivered when the handler returns
  }
  errno = error;
}

}  // namespace

InterruptGuard::InterruptGuard() {
  interrupted = false;
  struct sigaction action {};
  action.sa_flags = SA_RESTART;
  action.sa_handler = on_signal;
  for (size_t i = 0; i < std::size(kStops); ++i) {
    sigaction(kStops[i], &action, &before[i]);
    // nohup has SIGHUP ignored, a shell SIGINT of what it starts in the background.
    if (before[i].sa_handler == SIG_IGN) sigaction(kStops[i], &before[i], nullptr);
  }
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, &pipe_before);
}

InterruptGuard::~InterruptGuard() {
  for (size_t i = 0; i < std::size(kStops); ++i) sigaction(kStops[i], &before[i], nullptr);
  sigaction(SIGPIPE, &pipe_before, nullptr);
  interrupted = false;  // only what a guard's scope ran is ended
}

bool InterruptGuard::requested() { return interrupted; }

void InterruptGuard::check() {
  if (requested()) throw InterruptedError();
}

}  // namespace duet
