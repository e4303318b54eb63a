#include "data/batch/batch_filler.h"

#include <algorithm>
#include <limits>
#include <system_error>

#include "core/parallel.h"
#include "device/range.h"

namespace duet {

namespace {
constexpr auto kBetweenLooks = std::chrono::milliseconds(50);  // at `stop`
}

BatchFiller::BatchFiller(const Options& options) : options_(options), places_(options.slots) {
  threads_.reserve(static_cast<size_t>(options.threads));
  try {
    for (int i = 0; i < options.threads; ++i) threads_.emplace_back([this, i] { work(i); });
  } catch (const std::system_error&) {
    // The system gives no more: those there are do the work, and who waits for it.
  }
}

BatchFiller::~BatchFiller() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  begin_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void BatchFiller::seek(uint64_t batch) {
  std::unique_lock lock(mutex_);
  end_ = 0;  // nothing is begun
  done_.wait(lock, [this] { return inside_ == 0; });
  first_ = next_batch_ = batch;
  next_part_ = 0;
  for (Place& place : places_) place = {options_.parts, 0, nullptr};
}

void BatchFiller::fill_up_to(uint64_t end) {
  {
    const std::lock_guard lock(mutex_);
    if (end_ == end) return;
    end_ = end;
  }
  begin_.notify_all();
}

bool BatchFiller::is_done(uint64_t batch) const {
  const std::lock_guard lock(mutex_);
  return batch < first_ + options_.slots && places_[batch % options_.slots].left == 0;
}

bool BatchFiller::wait(uint64_t batch, bool (*stop)()) {
  std::unique_lock lock(mutex_);
  Place& place = place_of(batch);
  while (place.left > 0) {
    if (stop && stop()) return false;
    if (fill_next(lock, batch, options_.threads)) continue;
    done_.wait_for(lock, kBetweenLooks);
  }
  if (place.error) std::rethrow_exception(place.error);
  return true;
}

void BatchFiller::release() {
  {
    const std::lock_guard lock(mutex_);
    place_of(first_) = {options_.parts, 0, nullptr};
    ++first_;
  }
  begin_.notify_all();
}

void BatchFiller::record() {
  const std::lock_guard lock(mutex_);
  recording_ = true;
  recorded_.clear();
}

std::vector<BatchFiller::Filled> BatchFiller::recorded() {
  const std::lock_guard lock(mutex_);
  recording_ = false;
  return std::move(recorded_);
}

void BatchFiller::work(int thread) {
  const LoopsAlone alone;  // the others are at work as well
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (!fill_next(lock, std::numeric_limits<uint64_t>::max(), thread)) begin_.wait(lock);
  }
}

bool BatchFiller::fill_next(std::unique_lock<std::mutex>& lock, uint64_t last, int thread) {
  if (next_batch_ > last || next_batch_ >= std::min(end_, first_ + options_.slots)) return false;
  const uint64_t batch = next_batch_;
  const size_t part = next_part_;
  if (++next_part_ == options_.parts) {
    next_part_ = 0;
    ++next_batch_;
  }
  ++inside_;
  const bool kept = recording_;
  lock.unlock();
  const auto start = std::chrono::steady_clock::now();
  std::exception_ptr error;
  try {
    const Range range("batch fill");
    options_.fill(batch, part);
  } catch (...) {
    error = std::current_exception();
  }
  const auto end = std::chrono::steady_clock::now();
  lock.lock();
  Place& place = place_of(batch);
  if (error && (!place.error || part < place.failed)) {
    place.error = error;
    place.failed = part;
  }
  if (kept && recording_) recorded_.push_back({batch, thread, start, end});
  --place.left;
  --inside_;
  if (place.left == 0 || inside_ == 0) done_.notify_all();
  return true;
}

}  // namespace duet
