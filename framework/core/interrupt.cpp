#include "core/interrupt.h"

#include <signal.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <thread>

#include "core/error.h"
#include "core/running.h"

namespace duet {
namespace {

constexpr int kStops[] = {SIGINT, SIGTERM, SIGHUP};
constexpr int64_t kSameMilliseconds = 200;

// Of the first signal, in milliseconds; 0: there was none. Handlers in several threads and whoever
// asks look at it.
std::atomic<int64_t> first_at = 0;
static_assert(std::atomic<int64_t>::is_always_lock_free);  // what a handler may use

struct sigaction before[std::size(kStops)], pipe_before;

int64_t milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::max<int64_t>(1, 1000 * static_cast<int64_t>(now.tv_sec) + now.tv_nsec / 1'000'000);
}

void on_signal(int signal) {
  const int error = errno;
  const int64_t now = milliseconds();
  int64_t first = 0;
  const bool is_first = first_at.compare_exchange_strong(first, now);
  if (!is_first && now - first >= kSameMilliseconds) {
    write_running("ended while ");
    ::signal(signal, SIG_DFL);
    raise(signal);  // delivered when the handler returns
  }
  errno = error;
}

}  // namespace

InterruptGuard::InterruptGuard() {
  first_at = 0;
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
  if (const int64_t first = first_at) {
    // A signal that counts as the first one may still come, and must not end the process before
    // what it has to print is printed.
    const int64_t passed = std::clamp<int64_t>(milliseconds() - first, 0, kSameMilliseconds);
    std::this_thread::sleep_for(std::chrono::milliseconds(kSameMilliseconds - passed));
  }
  for (size_t i = 0; i < std::size(kStops); ++i) sigaction(kStops[i], &before[i], nullptr);
  sigaction(SIGPIPE, &pipe_before, nullptr);
  first_at = 0;  // only what a guard's scope ran is ended
}

bool InterruptGuard::requested() { return first_at != 0; }

void InterruptGuard::check() {
  if (requested()) throw InterruptedError();
}

}  // namespace duet
