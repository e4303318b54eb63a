// Memory that the host fills ahead and a device reads: on a GPU copied there on a stream of its own,
// beside the work of the context's stream; on the CPU the same memory.
#pragma once

#include <cstddef>
#include <vector>

#include "device/context.h"
#include "device/stream_times.h"

namespace duet {

class StagedSlots {
 public:
  /// `slots` pieces of `bytes` each. REQUIRES: context outlives this; bytes is a multiple of
  /// kAlignment.
  StagedSlots(Context& context, size_t slots, size_t bytes);
  ~StagedSlots();
  StagedSlots(const StagedSlots&) = delete;
  StagedSlots& operator=(const StagedSlots&) = delete;

  size_t slots() const { return slots_; }
  size_t slot_bytes() const { return slot_bytes_; }
  /// Where the host writes a slot.
  std::byte* host(size_t slot) const { return host_ + slot * slot_bytes_; }
  /// Where the device reads slot 0; the others follow.
  const void* device() const { return device_.data() ? device_.data() : host_; }
  /// Of the context's device; on the CPU the slots themselves.
  size_t device_bytes() const { return slots_ * slot_bytes_; }

  /// The work queued on the context's stream up to here is the last that reads what `slot` holds.
  void used(size_t slot);
  /// Queues the copy of a slot, to run when what used() told of is done. With `times`, between two
  /// marks whose numbers it returns.
  struct Marks {
    size_t begin = 0, end = 0;
  };
  Marks queue_copy(size_t slot, StreamTimes* times = nullptr);
  /// What is queued on the context's stream from here on waits for the slot's copy.
  void queue_wait(size_t slot);
  /// Waits until the host may write the slot again.
  void wait_for_copy(size_t slot);

 private:
  void release() noexcept;

  Context& context_;
  const size_t slots_, slot_bytes_;
  Buffer memory_;              // the CPU's slots
  std::byte* host_ = nullptr;  // on a GPU pinned memory
  Buffer device_;              // the GPU's slots
  CUstream_st* copies_ = nullptr;
  std::vector<void*> used_, copied_;  // an event a slot
};

}  // namespace duet
