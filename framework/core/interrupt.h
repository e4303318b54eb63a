// Ctrl-C and SIGTERM as a flag that whatever takes long looks at.
#pragma once

#include "core/parallel.h"

namespace duet {

/// While one of these lives, the first SIGINT, SIGTERM or SIGHUP only sets the flag. A second one,
/// of any of them, ends the process at once, as if nobody listened; within 0.2 s it counts as the
/// same one, because timeout(1) and others signal the process and then its group. Writing to a pipe
/// that nobody reads is an error instead of the end: Ctrl-C also ends the `tee` that a log goes to.
/// The guard ignores a signal that was ignored when it was made, and one that a child of this process sends.
/// One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();  // not before 0.2 s after the first signal: it may come a second time
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  /// From now on, in a child: a signal that it sends to itself ends it, as if nobody listened.
  static void in_child();

  static bool requested();
  /// Throws InterruptedError if requested().
  static void check();
};

/// While one of these lives, what is called may handle the signals above itself; when the last of them ends, each has
/// the handler that it had before the first. NVRTC handles SIGINT and SIGTERM when it compiles for the first time in a
/// process, and puts handlers back without SA_SIGINFO (13.0), so that they would be told nothing of the sender.
class KeptSignalHandlers {
 public:
  KeptSignalHandlers();
  ~KeptSignalHandlers();
  KeptSignalHandlers(const KeptSignalHandlers&) = delete;
  KeptSignalHandlers& operator=(const KeptSignalHandlers&) = delete;
};

/// Calls work(). Once an interrupt is requested, its loops (core/parallel.h) leave out what they
/// have not begun, and this throws InterruptedError when it returns: what it computed, and how long
/// that took, is not to be used.
template <class Work>
void run_interruptibly(const Work& work) {
  InterruptGuard::check();
  {
    const LoopStop unfinished_loops(InterruptGuard::requested);
    work();
  }
  InterruptGuard::check();
}

}  // namespace duet
