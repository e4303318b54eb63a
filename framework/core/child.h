// Work in a child process, whose crash, exit or hang its parent survives.
#pragma once

#include <functional>
#include <string>

namespace duet {

/// How a child ended.
struct ChildEnd {
  bool finished = false;  // its work returned
  int signal = 0;         // that ended it, or 0
  int stop = 0;           // the signal that stopped it for good, or 0: it was ended then
  bool garbled = false;   // what came was no text that it sent: it was ended then
  bool timer = false;     // it finished, and left a timer running that would have ended it later
  int code = 0;           // its exit code
  std::string note;       // Running::leave_note
  std::string place;      // Running::place, where it did not finish

  /// "crashed: SIGSEGV (...)", "ended the process with exit code 0", or the note, and the place.
  std::string text() const;
  /// A signal that says nothing of what ran when it came: a timer's, or one that a thread raised.
  bool is_untimely() const;
};

using Send = std::function<void(const std::string& text)>;

/// Calls work(send) in a child process, and `receive` here with every text that it sends, of at most
/// 1 GiB. An interrupt of this process is one of the child, too, and the child ends where this process
/// does; signals that the child sends are no interrupt of either. What it prints goes to standard error,
/// as standard output may be for results. A child that is stopped while this process runs is ended
/// after two seconds. Running is shared with it. Throws RunError if the system gives no process.
/// REQUIRES: an InterruptGuard; no other thread and nothing of CUDA has been at work in this
/// process, as neither survives a fork; `work` throws nothing.
ChildEnd run_in_child(const std::function<void(const Send&)>& work, const Send& receive);

}  // namespace duet
