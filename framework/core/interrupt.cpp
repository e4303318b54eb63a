#include "core/interrupt.h"

#include <atomic>
#include <csignal>

#include "core/error.h"

namespace duet {
namespace {

std::atomic<bool> interrupted = false;                  // other threads look at it too
static_assert(std::atomic<bool>::is_always_lock_free);  // what a handler may use

void on_signal(int signal) {
  interrupted = true;
  std::signal(signal, SIG_DFL);  // the second one ends the process
}

}  // namespace

InterruptGuard::InterruptGuard() {
  interrupted = false;
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  // The terminal is gone; nohup has it ignored, and that stays.
  if (std::signal(SIGHUP, on_signal) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
}

InterruptGuard::~InterruptGuard() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  if (std::signal(SIGHUP, SIG_DFL) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
  interrupted = false;  // only what a guard's scope ran is ended
}

bool InterruptGuard::requested() { return interrupted; }

void InterruptGuard::check() {
  if (requested()) throw InterruptedError();
}

}  // namespace duet
