// Which implementation runs, for whoever must tell when the process ends in the middle of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace duet {

/// While one of these lives, that implementation runs: "ID in TYPE WHAT (layer NAME)". They do not
/// nest, and one thread makes them. Costs tens of nanoseconds.
class Running {
 public:
  /// `layer` may be empty: a layer by itself.
  Running(std::string_view id, std::string_view type, std::string_view what,
          std::string_view layer = {});
  ~Running();
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  /// Of the one that runs or, if none does, that ran last; empty if none has.
  static std::string last();
  static std::string last_id();
  /// Of the RunningPlace that lives, or empty.
  static std::string place();
  /// How many there have been.
  static uint64_t count();
  static bool runs();
  /// Whether one is there that is no reference, which may take as long as it wants.
  static bool is_limited();

  /// From now on this process and the child that it forks next share all of the above, and the
  /// note, which is empty; nothing runs.
  static void share();
  static bool is_shared();
  /// Why this process ends; for its parent.
  static void leave_note(std::string_view text);
  static std::string note();
};

/// While one of these lives, what runs does so there: "on the neighbouring problem x=3x4". They do not
/// nest.
class RunningPlace {
 public:
  explicit RunningPlace(std::string_view place);
  ~RunningPlace();
  RunningPlace(const RunningPlace&) = delete;
  RunningPlace& operator=(const RunningPlace&) = delete;
};

/// From now on a SIGSEGV, SIGBUS, SIGFPE, SIGILL or SIGABRT first writes to standard error which
/// implementation crashed; then it ends the process as it would have. A signal that somebody else
/// handles (AddressSanitizer) stays theirs.
void name_crashes();

/// "SIGSEGV (an access to memory that is not its own)".
std::string signal_text(int signal);

/// Writes "<what>" and the implementation that runs or ran last to standard error, if there is one.
/// For a signal's handler.
void write_running(const char* what);

}  // namespace duet
