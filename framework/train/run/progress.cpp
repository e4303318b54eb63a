#include "train/run/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "core/number_text.h"

namespace duet {
namespace {

// A longer line would wrap, and could not be drawn over any more.
size_t terminal_width() {
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? size.ws_col - 1 : 79;
}

}  // namespace

Progress::Progress(bool enabled) : active_(enabled && isatty(STDERR_FILENO)) {}

Progress::~Progress() { clear(); }

void Progress::update(const std::string& label, int64_t done, int64_t total,
                      const std::string& detail, double seconds_left) {
  if (!active_) return;
  const auto now = std::chrono::steady_clock::now();
  if (drawn_ > 0 && now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  constexpr int kWidth = 24;
  const int filled = total > 0 ? static_cast<int>(kWidth * done / total) : 0;
  const std::string bar = std::string(filled, '#') + std::string(kWidth - filled, '.');
  const int left = static_cast<int>(std::min(seconds_left, 1e6));
  const std::string line =
      printed("%s [%s] %lld/%lld  %s  %d:%02d left", label.c_str(), bar.c_str(),
              static_cast<long long>(done), static_cast<long long>(total), detail.c_str(),
              left / 60, left % 60)
          .substr(0, terminal_width());
  const size_t rest = drawn_ > line.size() ? drawn_ - line.size() : 0;
  std::fprintf(stderr, "\r%s%s", line.c_str(), std::string(rest, ' ').c_str());
  std::fflush(stderr);
  drawn_ = std::max(drawn_, line.size());
}

void Progress::clear() {
  if (drawn_ == 0) return;
  std::fprintf(stderr, "\r%s\r", std::string(drawn_, ' ').c_str());
  std::fflush(stderr);
  drawn_ = 0;
}

}  // namespace duet
