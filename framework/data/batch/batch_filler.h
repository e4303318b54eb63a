// Threads that fill batches ahead of who takes them, in a ring of places: batch b goes to place
// b % slots. They know neither what a batch is made of nor where it lies.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace duet {

class BatchFiller {
 public:
  struct Options {
    size_t slots = 2;
    size_t parts = 1;  // of a batch; each is filled by one thread
    int threads = 1;   // where the system gives fewer, fewer fill
    /// Called by any thread, for every part of every batch once, in no particular order within a
    /// batch. May throw.
    std::function<void(uint64_t batch, size_t part)> fill;
  };
  explicit BatchFiller(const Options& options);
  /// Waits for the parts that are being filled.
  ~BatchFiller();
  BatchFiller(const BatchFiller&) = delete;
  BatchFiller& operator=(const BatchFiller&) = delete;

  /// Forgets all batches and begins with `batch`. Waits for the parts that are being filled.
  void seek(uint64_t batch);
  /// No batch from `end` on is begun.
  void fill_up_to(uint64_t end);
  /// The next batch that has not been released.
  uint64_t first() const { return first_; }
  /// True if wait(batch) would return, or throw, at once.
  bool is_done(uint64_t batch) const;
  /// Waits until the batch is filled, and fills what nobody has begun itself. Throws what fill()
  /// threw of it, of several the first part's. With `stop`, returns false as soon as that is true;
  /// it is asked some times a second. REQUIRES: first() <= batch < first() + slots, and below the
  /// end.
  bool wait(uint64_t batch, bool (*stop)() = nullptr);
  /// The place of first() may be filled anew. REQUIRES: is_done(first()).
  void release();

  /// A part that was filled.
  struct Filled {
    uint64_t batch;
    int thread;  // from 0; the last is the caller of wait()
    std::chrono::steady_clock::time_point start, end;
  };
  /// Keeps what is begun from here on and filled; then returns it, and keeps no more.
  void record();
  std::vector<Filled> recorded();

 private:
  struct Place {
    size_t left = 0;  // parts that are not filled
    size_t failed = 0;
    std::exception_ptr error;  // of part `failed`, the first
  };

  void work(int thread);
  /// Fills the next part of a batch up to `last`; false if there is none to begin.
  bool fill_next(std::unique_lock<std::mutex>& lock, uint64_t last, int thread);
  Place& place_of(uint64_t batch) { return places_[batch % options_.slots]; }

  const Options options_;
  mutable std::mutex mutex_;  // of all below; first_ is written by the taking thread alone
  std::condition_variable begin_, done_;
  std::vector<Place> places_;
  uint64_t first_ = 0;
  uint64_t next_batch_ = 0;  // the next part to begin
  size_t next_part_ = 0;
  uint64_t end_ = 0;
  size_t inside_ = 0;  // parts that are being filled
  bool stop_ = false, recording_ = false;
  std::vector<Filled> recorded_;
  std::vector<std::thread> threads_;
};

}  // namespace duet
