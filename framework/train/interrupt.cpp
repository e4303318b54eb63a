#include "train/interrupt.h"

#include <csignal>

#include "core/error.h"

namespace duet {
namespace {

volatile std::sig_atomic_t interrupted = 0;

void on_signal(int signal) {
  interrupted = 1;
  std::signal(signal, SIG_DFL);  // the second one ends the process
}

}  // namespace

InterruptGuard::InterruptGuard() {
  interrupted = 0;
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  // The terminal is gone; nohup has it ignored, and that stays.
  if (std::signal(SIGHUP, on_signal) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
}

InterruptGuard::~InterruptGuard() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  if (std::signal(SIGHUP, SIG_DFL) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
}

bool InterruptGuard::requested() { return interrupted != 0; }

void InterruptGuard::check() {
  if (requested()) throw InterruptedError();
}

}  // namespace duet
