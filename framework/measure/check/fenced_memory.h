// Memory of the host beside pages that nobody may touch: unlike a write into a guard band, an access
// there is seen too if it only reads, or if what was written is put back.
#pragma once

#include <signal.h>

#include <atomic>
#include <cstddef>
#include <string>

namespace duet {

enum class Side { kBefore, kAfter };

/// While one lives, SIGSEGV is handled: the first access to its pages is remembered and let through,
/// and any other is for whoever handled the signal before. Aligned to kAlignment, so that up to so
/// much of a page lies between the end of the data and the protected pages behind them.
class FencedMemory {
 public:
  /// Protected pages before the data, or behind them. Throws OutOfMemoryError. REQUIRES: no
  /// implementation runs meanwhile, nor when this is destroyed.
  FencedMemory(size_t bytes, Side side);
  ~FencedMemory();
  FencedMemory(const FencedMemory&) = delete;
  FencedMemory& operator=(const FencedMemory&) = delete;

  void* data() const { return data_; }
  /// "8 bytes past the end were written", or an empty string.
  std::string touched() const;

 private:
  static void on_access(int, siginfo_t* info, void* machine);
  bool let_through(const void* address, bool writes);

  const Side side_;
  const size_t bytes_;
  char* mapped_ = nullptr;
  size_t mapped_bytes_ = 0;
  char* fence_ = nullptr;
  char* data_ = nullptr;
  std::atomic<const char*> first_ = nullptr;
  std::atomic<bool> writes_ = false;
  FencedMemory* next_ = nullptr;
};

}  // namespace duet
