// Batches of a split: gathered, augmented and normalised where the network runs, by one kernel that
// finds its samples from the step number, and where there are records (core/field.h) another for
// them. They lie as bytes (or numbers) in that device's memory: all of the split, or, streamed, the
// next few batches (data/batch/batch_stream.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "data/batch/batch_stream.h"
#include "data/set/dataset.h"
#include "device/context.h"
#include "device/device.h"

namespace duet {

struct BatchOptions {
  int64_t batch = 1;
  uint64_t seed = 0;     // of the order; unused without shuffle
  bool shuffle = false;  // training; without it the order is the split's, for evaluation
  Augment augment = {};  // of images; drawn from the seed, the epoch and the sample
  /// kAuto: not streamed if the samples take at most half of the memory that is free.
  Stream stream = Stream::kNever;
};

class BatchRecords;
struct SampleOrder;

class Batches {
 public:
  /// Copies the split to the context's device, or begins to stream it; labels lie there in any
  /// case. Throws ConfigError if `shuffle` is set and a batch is larger than the split, and what
  /// split.read throws. REQUIRES: split.count > 0; no mixup with records; context outlives this,
  /// and the split too if it is streamed.
  Batches(Context& context, const DatasetInfo& info, const Split& split,
          const BatchOptions& options);
  ~Batches();
  Batches(Batches&&) noexcept;

  /// Of the device.
  size_t memory_bytes() const;
  bool is_streamed() const { return stream_ != nullptr; }
  /// "on the GPU", "streamed from files by 8 threads"
  std::string whereabouts() const;
  int64_t count() const { return count_; }
  int64_t batch() const { return options_.batch; }
  /// Batches in an epoch. With shuffle all are full, and what is left over (another lot each epoch)
  /// is left out; without it the last one may be partly empty.
  int64_t per_epoch() const { return per_epoch_; }

  /// Puts `count` samples of another split, from `first`, at the place of this one's, which then has
  /// so many. Waits for what is queued. REQUIRES: neither streamed, shuffled nor augmented, no
  /// targets or records; the samples are in memory, at least 1 and at most as many as were copied.
  void replace(const Split& samples, int64_t first, int64_t count);

  /// Has the gathers that are queued from here on find batch `step` there, and only that one. Nothing
  /// to do unless streamed. Returns false as soon as `stop` is true, without that. Throws what
  /// split.read throws.
  bool stage(uint64_t step, bool (*stop)() = nullptr) const {
    if (targets_ && !targets_->stage(step, stop)) return false;
    return !stream_ || stream_->stage(step, stop);
  }
  /// Until it is called with nullptr, *record gets what stage() does.
  void record(StreamRecord* record) const {
    if (stream_) stream_->record(record);
  }

  /// Queues batch s, s = *step in memory of the device: batch s % per_epoch() of epoch s /
  /// per_epoch(). Row r gets sample shuffled(first + r, count, seed, epoch), or first + r without
  /// shuffle:
  ///   x[r] = byte * (1 / (255 * stddev)) - mean / stddev, or number / stddev - mean / stddev,
  ///   rounded once, the same bits on CPU and GPU; labels[r] = its label.
  /// An augmented image's bytes have 16 bits more (data/batch/augment_pixels.h); its hole gets x = 0.
  /// With mixup x[r] becomes fma(s, x[r], (1 - s) * x[r - 1]) before it is rounded, with x[-1] the
  /// last row's and one share s a step, drawn from the seed and the step. Rows past the end of the
  /// split get x = 0 and -1 as label and in `rows`. If streamed and s is not the batch that was
  /// staged, x is NaN. A target of image pairs is gathered as its image is, flipped where that is,
  /// and not normalised: byte / 255. A record is the sample's, bit for bit; rows past the end hold
  /// 0 or the class -1, and those of a batch that is not there NaN or -1. Boxes move with the pixels
  /// of their image (data/batch/boxes.h): they are cut to it, those of which less than a tenth of the area
  /// is left are dropped, the others stand first in their order, and their counts are a field too.
  ///
  /// `to` are fields by their names, as fields_of() has them: images (always), image pairs' targets
  /// and records of numbers float32 or bfloat16 (the float32 values rounded once more), boxes
  /// float32, images in either layout and records in rows; labels are labels_desc(batch), or mixed_labels_desc(batch) (mixup needs that).
  /// REQUIRES: context is the constructor's; all of `to` is on its device. `step_rests`: nothing
  /// that is queued around it writes *step.
  void gather(Context& context, const uint64_t* step, const FieldTensors& to,
              bool step_rests = false) const;

 private:
  SampleOrder order() const;
  void check(const DatasetInfo& info, const Split& split) const;
  void stream(Context& context, const Split& split, size_t sample_bytes);
  void gather_images(Context& context, const uint64_t* step, const Tensor& x, const Tensor& labels,
                     const Tensor& rows, bool step_rests) const;

  BatchOptions options_;
  Shape sample_;  // channels, height, width
  int64_t count_ = 0;
  int64_t per_epoch_ = 0;
  bool numbers_ = false;
  Device device_;
  bool from_files_ = false;
  int threads_ = 0;  // of the stream
  Buffer samples_;   // bytes of images, or float32 numbers
  std::unique_ptr<BatchRecords> records_;
  std::unique_ptr<BatchStream> stream_;  // instead of samples_ and those of the records
  Buffer labels_;
  Buffer grey_means_;  // uint32 a sample, where augment.contrast asks for them
  Buffer shares_;      // mixup_shares(), where augment.mixup asks for them
  Buffer scale_;       // float32 a channel
  Buffer shift_;
  std::vector<float> values_;  // of every byte: channels x 256; for the CPU
  std::unique_ptr<Batches> targets_;
};

}  // namespace duet
