#include "data/batch/batch_stream.h"

#include <algorithm>
#include <cstring>

#include "core/arena.h"

namespace duet {

BatchStream::BatchStream(Context& context, const Options& options)
    : options_(options),
      staged_(context, kSlots, align_up(kHeaderBytes + options.rows * options.row_bytes)),
      filler_({.slots = kSlots,
               .parts = (options.rows + options.rows_a_part - 1) / options.rows_a_part,
               .threads = options.threads,
               .fill = [this](uint64_t step, size_t part) { fill(step, part); }}) {}

void BatchStream::fill(uint64_t step, size_t part) {
  std::byte* const slot = staged_.host(step % kSlots);
  if (part == 0) std::memcpy(slot, &step, sizeof step);
  const size_t first = part * options_.rows_a_part;
  const size_t end = std::min(first + options_.rows_a_part, options_.rows);
  for (size_t row = first; row < end; ++row) {
    options_.fill_row(step, row, slot + kHeaderBytes + row * options_.row_bytes);
  }
}

bool BatchStream::stage(uint64_t step, bool (*stop)()) {
  if (step == staged_step_) return true;
  if (staged_step_) {
    // All that reads the batch before is queued by now, and on the CPU done.
    staged_.used(*staged_step_ % kSlots);
    staged_.wait_for_copy(*staged_step_ % kSlots);
  }
  if (staged_step_ && step == *staged_step_ + 1) {
    filler_.release();
  } else {
    // Copies ahead of the step may be under way still.
    for (size_t slot = 0; slot < kSlots; ++slot) staged_.wait_for_copy(slot);
    filler_.seek(step);
    next_copy_ = step;
  }
  staged_step_.reset();  // whatever stops this, the next call begins anew
  filler_.fill_up_to(options_.end(step));
  if (!filler_.wait(step, stop)) return false;
  for (; next_copy_ == step || (next_copy_ < step + kSlots && filler_.is_done(next_copy_));
       ++next_copy_) {
    const auto marks = staged_.queue_copy(next_copy_ % kSlots, record_ ? record_->times : nullptr);
    if (record_) record_->copies.push_back({next_copy_, marks});
  }
  staged_.queue_wait(step % kSlots);
  staged_step_ = step;
  return true;
}

void BatchStream::record(StreamRecord* record) {
  if (record_) record_->filled = filler_.recorded();
  record_ = record;
  if (record_) filler_.record();
}

}  // namespace duet
