// Elapsed time and rates that stay sensible where the clock stands still or goes backward, as in
// virtual machines that were suspended.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace duet {

class Elapsed {
 public:
  /// Seconds since it was made, at least 0.
  double seconds() const {
    return std::max(0.0, std::chrono::duration<double>(Clock::now() - start_).count());
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

/// 0 if no time has passed.
inline double per_second(int64_t count, double seconds) {
  return seconds > 0.0 ? static_cast<double>(count) / seconds : 0.0;
}

}  // namespace duet
