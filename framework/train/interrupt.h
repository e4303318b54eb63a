// Ctrl-C and SIGTERM as a flag that the training loop looks at between steps.
#pragma once

namespace duet {

/// While one of these lives, the first SIGINT or SIGTERM only sets the flag; a second one ends the
/// process as if nobody listened. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  static bool requested();
  /// Throws InterruptedError if requested().
  static void check();
};

}  // namespace duet
