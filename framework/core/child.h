// Work in a child process, whose crash, exit or hang its parent survives.
#pragma once

#include <functional>
#include <string>

namespace duet {

/// How a child ended.
struct ChildEnd {
  bool finished = false;  // its work returned
  int signal = 0;         // that ended it, or 0
  int code = 0;           // its exit code
  std::string note;       // Running::leave_note

  /// "crashed: SIGSEGV (...)", "ended the process with exit code 0", or the note.
  std::string text() const;
};

using Send = std::function<void(const std::string& text)>;

/// Calls work(send) in a child process, and `receive` here with every text that it sends. An
/// interrupt of this process is one of the child, too, and the child ends where this process does.
/// Running is shared with it. Throws RunError if the system gives no process.
/// REQUIRES: an InterruptGuard; no other thread and nothing of CUDA has been at work in this
/// process, as neither survives a fork; `work` throws nothing.
ChildEnd run_in_child(const std::function<void(const Send&)>& work, const Send& receive);

}  // namespace duet
