#include "train/progress.h"

#include <unistd.h>

#include <cstdio>

namespace duet {

Progress::Progress(bool enabled) : active_(enabled && isatty(STDERR_FILENO)) {}

Progress::~Progress() { clear(); }

void Progress::update(const std::string& label, int64_t done, int64_t total, double loss,
                      double accuracy, double images_per_second, double seconds_left) {
  if (!active_) return;
  const auto now = std::chrono::steady_clock::now();
  if (drawn_ && now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  constexpr int kWidth = 24;
  const int filled = total > 0 ? static_cast<int>(kWidth * done / total) : 0;
  const std::string bar = std::string(filled, '#') + std::string(kWidth - filled, '.');
  const int left = static_cast<int>(seconds_left);
  std::fprintf(
      stderr, "\r\033[K%s [%s] %lld/%lld  loss %.4f  accuracy %.2f%%  %.0f images/s  %d:%02d left",
      label.c_str(), bar.c_str(), static_cast<long long>(done), static_cast<long long>(total), loss,
      100.0 * accuracy, images_per_second, left / 60, left % 60);
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::clear() {
  if (!drawn_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace duet
