#include "core/interrupt.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <mutex>
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

std::atomic<pid_t> itself = 0;  // of a child
static_assert(std::atomic<pid_t>::is_always_lock_free);

struct sigaction before[std::size(kStops)], pipe_before;

int64_t milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::max<int64_t>(1, 1000 * static_cast<int64_t>(now.tv_sec) + now.tv_nsec / 1'000'000);
}

bool is_own_child(pid_t process) {
  const int error = errno;
  siginfo_t info{};
  const bool own =
      waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT) == 0;
  errno = error;
  return own;
}

void end_by(int signal) {
  ::signal(signal, SIG_DFL);
  raise(signal);  // delivered when the handler returns
}

void on_signal(int signal, siginfo_t* info, void*) {
  const bool timer = info->si_code == SI_TIMER;
  const pid_t sender = info->si_code <= 0 && !timer ? info->si_pid : 0;
  if (sender && is_own_child(sender)) return;
  if (itself && (timer || sender == itself)) return end_by(signal);
  const int error = errno;
  const int64_t now = milliseconds();
  int64_t first = 0;
  const bool is_first = first_at.compare_exchange_strong(first, now);
  if (!is_first && now - first >= kSameMilliseconds) {
    write_running("ended while ");
    end_by(signal);
  }
  errno = error;
}

struct {
  std::mutex mutex;
  int users = 0;
  struct sigaction handlers[std::size(kStops)];
} kept;

}  // namespace

InterruptGuard::InterruptGuard() {
  first_at = 0;
  struct sigaction action {};
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  action.sa_sigaction = on_signal;
  for (size_t i = 0; i < std::size(kStops); ++i) {
    sigaction(kStops[i], &action, &before[i]);
    // nohup has SIGHUP ignored, a shell SIGINT of what it starts in the background.
    if (before[i].sa_handler == SIG_IGN) sigaction(kStops[i], &before[i], nullptr);
  }
  action.sa_flags = 0;
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

void InterruptGuard::in_child() { itself = getpid(); }

bool InterruptGuard::requested() { return first_at != 0; }

void InterruptGuard::check() {
  if (requested()) throw InterruptedError();
}

KeptSignalHandlers::KeptSignalHandlers() {
  const std::lock_guard lock(kept.mutex);
  if (kept.users++ > 0) return;
  for (size_t i = 0; i < std::size(kStops); ++i) {
    sigaction(kStops[i], nullptr, &kept.handlers[i]);
  }
}

KeptSignalHandlers::~KeptSignalHandlers() {
  const std::lock_guard lock(kept.mutex);
  if (--kept.users > 0) return;
  for (size_t i = 0; i < std::size(kStops); ++i) {
    sigaction(kStops[i], &kept.handlers[i], nullptr);
  }
}

}  // namespace duet
