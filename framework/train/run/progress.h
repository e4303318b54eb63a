// The line that moves while a terminal watches; nothing where output is a file or a pipe.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace duet {

class Progress {
 public:
  /// Draws on standard error if `enabled` and it is a terminal.
  explicit Progress(bool enabled);
  ~Progress();

  bool active() const { return active_; }
  /// `done` of `total` of what `label` says, and `detail`; redraws at most ten times a second.
  void update(const std::string& label, int64_t done, int64_t total, const std::string& detail,
              double seconds_left);
  /// Blanks the line, so that a log line can take its place.
  void clear();

 private:
  bool active_ = false;
  size_t drawn_ = 0;  // characters on the line
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace duet
