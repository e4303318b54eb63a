// Batches on their way to a device: threads of the host prepare those to come, copies run beside
// the step that computes (device/staged_slots.h), and the gather reads the one of its step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/host_device.h"
#include "data/batch/batch_filler.h"
#include "device/staged_slots.h"

namespace duet {

/// What a stream did, for a timeline.
struct StreamRecord {
  struct Copy {
    uint64_t step;
    StagedSlots::Marks marks;
  };
  StreamTimes* times = nullptr;  // of the copies; none on the CPU
  std::vector<BatchFiller::Filled> filled;
  std::vector<Copy> copies;
};

class BatchStream {
 public:
  /// Batches on their way, the one that is computed among them.
  static constexpr size_t kSlots = 4;
  /// A slot begins with the number of its step, and the rows follow here.
  static constexpr size_t kHeaderBytes = 256;

  struct Options {
    size_t rows = 1, row_bytes = 1;
    int threads = 1;
    size_t rows_a_part = 1;  // how many a thread takes at a time
    /// Writes a row of the batch of a step; in any thread. May throw.
    std::function<void(uint64_t step, size_t row, std::byte* to)> fill_row;
    /// The step before which to stop preparing, when the batch of `step` is staged.
    std::function<uint64_t(uint64_t step)> end;
  };
  BatchStream(Context& context, const Options& options);

  /// Has the gathers that are queued from here on read the batch of `step`. Returns false as soon
  /// as `stop` is true, without that. Throws what fill_row() threw for this batch. Steps one after
  /// the other are prepared ahead; with any other the stream begins anew.
  bool stage(uint64_t step, bool (*stop)() = nullptr);

  /// Where the slots lie in the device's memory, and how far apart.
  const std::byte* slots() const { return static_cast<const std::byte*>(staged_.device()); }
  size_t slot_bytes() const { return staged_.slot_bytes(); }
  size_t device_bytes() const { return staged_.device_bytes(); }

  /// Until it is called with nullptr, *record gets what is done.
  void record(StreamRecord* record);

 private:
  void fill(uint64_t step, size_t part);

  const Options options_;
  StagedSlots staged_;
  StreamRecord* record_ = nullptr;
  std::optional<uint64_t> staged_step_;  // of the last stage()
  uint64_t next_copy_ = 0;
  BatchFiller filler_;  // last: its threads write to staged_
};

/// What a gather reads of the batch of `step`: its rows, or nullptr if the slot holds another
/// batch. A network that is queued on after a loss that is not finite stays at its step, while
/// batches go on.
DUET_HOST_DEVICE inline const uint8_t* staged_rows(const uint8_t* slots, size_t slot_bytes,
                                                   uint64_t step) {
  const uint8_t* slot = slots + step % BatchStream::kSlots * slot_bytes;
  if (*reinterpret_cast<const uint64_t*>(slot) != step) return nullptr;
  return slot + BatchStream::kHeaderBytes;
}

}  // namespace duet
