// What the CPU's and the GPU's gather share.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/bfloat16.h"
#include "core/mixed_labels.h"
#include "data/batch/augment_pixels.h"
#include "data/batch/batch_stream.h"
#include "data/batch/boxes.h"
#include "data/batch/mixup.h"
#include "data/batch/order.h"

struct CUstream_st;

namespace duet {

/// Which samples make a batch.
struct SampleOrder {
  uint64_t seed;
  uint32_t count;
  uint32_t batch;
  uint32_t per_epoch;
  bool shuffle;
};

/// One gather. Pointers are to the device's memory; x is batch x channels x pixels, in float32 or
/// bfloat16.
struct GatherProblem {
  const uint64_t* step;
  bool step_rests;         // while the kernels before the gather run, as `samples` do
  const uint8_t* samples;  // bytes of images, or float32 numbers
  bool numbers;
  size_t slot_bytes;             // samples are the slots of a BatchStream; 0: all samples
  size_t row_bytes;              // from a row of a slot to the next
  const uint32_t* grey_means;    // of each image, in units of 2^-16; for augment.contrast only
  const uint32_t* shares;        // mixup_shares(), for augment.mixup only
  const int32_t* sample_labels;  // nullptr: samples have none
  const float* scale;
  const float* shift;
  void* x;
  int32_t* labels;           // nullptr: nobody reads them
  MixedLabel* mixed_labels;  // instead of labels
  int32_t* rows;             // rows_desc(); nullptr: nobody reads them
  SampleOrder order;
  uint32_t channels;
  uint32_t pixels;
  uint32_t width;  // of an image
  Augment augment;
};

struct SampleOfEpoch {
  uint32_t sample;
  uint64_t epoch;
};

/// The sample of row `row` in step `step`; count if the row is past the end.
DUET_HOST_DEVICE inline SampleOfEpoch sample_of(const SampleOrder& order, uint64_t step,
                                                uint32_t row) {
  uint64_t epoch;
  uint32_t batch_index;
  if (step >> 32 == 0) {  // 32-bit division is several times cheaper on a GPU
    epoch = static_cast<uint32_t>(step) / order.per_epoch;
    batch_index = static_cast<uint32_t>(step) % order.per_epoch;
  } else {
    epoch = step / order.per_epoch;
    batch_index = static_cast<uint32_t>(step % order.per_epoch);
  }
  const uint64_t position = static_cast<uint64_t>(batch_index) * order.batch + row;
  if (position >= order.count) return {order.count, epoch};
  const uint32_t i = static_cast<uint32_t>(position);
  return {order.shuffle ? shuffled(i, order.count, order.seed, epoch) : i, epoch};
}

/// A row of the batch and where its sample lies.
struct GatherRow {
  SampleOfEpoch place;
  const uint8_t* bytes;  // nullptr: all its values are `blank`
  float blank;           // 0 past the end, NaN if the batch is not there
};

DUET_HOST_DEVICE inline GatherRow gather_row(const GatherProblem& p, uint64_t step, uint32_t row) {
  GatherRow found = {sample_of(p.order, step, row), nullptr, 0.0f};
  if (found.place.sample >= p.order.count) return found;
  const size_t bytes = size_t{p.channels} * p.pixels * (p.numbers ? sizeof(float) : 1);
  if (p.slot_bytes == 0) {
    found.bytes = p.samples + found.place.sample * bytes;
  } else if (const uint8_t* rows = staged_rows(p.samples, p.slot_bytes, step)) {
    found.bytes = rows + row * p.row_bytes;
  } else {
    found.blank = NAN;
  }
  return found;
}

/// The share of its own image that a row has in this step.
DUET_HOST_DEVICE inline uint32_t own_share(const GatherProblem& p, uint64_t step) {
  if (!p.shares) return kWholeShare;
  return p.shares[philox_block(p.order.seed, step, kStreamMixup, 0).v[0] >> (32 - kMixupBits)];
}

/// The row whose image is mixed into that of `row`.
DUET_HOST_DEVICE inline uint32_t row_mixed_into(const GatherProblem& p, uint32_t row) {
  return (row == 0 ? p.order.batch : row) - 1;
}

/// `share` of one value and the rest of another.
DUET_HOST_DEVICE inline float mixed(uint32_t share, float own, float other) {
  const float part = static_cast<float>(share) * (1.0f / kWholeShare);
  return std::fma(part, own, (1.0f - part) * other);
}

/// The label of a row with sample `sample`; without labels 0. The rest of it is for mixed_labels.
DUET_HOST_DEVICE inline MixedLabel label_of(const GatherProblem& p, uint64_t step, uint32_t row,
                                            uint32_t sample) {
  int32_t label = sample < p.order.count ? 0 : -1;
  if (label == 0 && p.sample_labels) label = p.sample_labels[sample];
  MixedLabel all = {label, label, 0};
  if (!p.mixed_labels) return all;
  const uint32_t share = own_share(p, step);
  all.share = static_cast<int32_t>(share);
  if (share == kWholeShare) return all;
  const uint32_t other = sample_of(p.order, step, row_mixed_into(p, row)).sample;
  all.other = other < p.order.count ? p.sample_labels[other] : -1;
  return all;
}
DUET_HOST_DEVICE inline void write_label(const GatherProblem& p, uint32_t row,
                                         const MixedLabel& label) {
  if (p.rows) p.rows[row] = label.label < 0 ? -1 : 0;
  if (p.labels) p.labels[row] = label.label;
  if (p.mixed_labels) p.mixed_labels[row] = label;
}

/// The draw for a sample. REQUIRES: p.augment.any().
DUET_HOST_DEVICE inline AugmentDraw draw_of(const GatherProblem& p, const SampleOfEpoch& place) {
  return draw_augment(p.augment, p.order.seed, place.epoch, place.sample,
                      static_cast<int32_t>(p.pixels / p.width), static_cast<int32_t>(p.width));
}

/// Channel c of a pixel of a row's image under that draw, as augmented_pixel(). REQUIRES: the row
/// has bytes, and the pixel is not in the hole.
DUET_HOST_DEVICE inline int64_t drawn_pixel(const GatherProblem& p, const AugmentDraw& draw,
                                            const GatherRow& row, uint32_t c, int32_t y,
                                            int32_t x) {
  return augmented_pixel(p.augment, draw, row.bytes,
                         p.grey_means ? p.grey_means[row.place.sample] : 0,
                         static_cast<int32_t>(p.channels), static_cast<int32_t>(p.pixels / p.width),
                         static_cast<int32_t>(p.width), static_cast<int32_t>(c), y, x);
}

/// The gather of records (core/field.h): words of 4 bytes, float32 or int32, from where they lie to
/// the rows of a batch.
struct GatherRecord {
  const uint32_t* samples;  // all samples; nullptr: in the rows of a BatchStream
  size_t offset;            // in such a row, in bytes
  void* to;                 // words, or bfloat16 of float32
  bool to_bfloat16;
  uint32_t words;       // of a sample
  uint32_t past_end;    // the word of rows that pad
  uint32_t not_staged;  // the word where the batch is not there
};

struct RecordsProblem {
  static constexpr uint32_t kMost = 8;

  const uint64_t* step;
  const uint8_t* slots;  // of the BatchStream
  size_t slot_bytes, row_bytes;
  SampleOrder order;
  uint32_t count;
  GatherRecord records[kMost];
};

/// A row's words of a record.
struct RecordRow {
  const uint32_t* words;  // nullptr: all are `blank`
  uint32_t blank;
};

/// Of row `row`, whose sample is `sample`.
DUET_HOST_DEVICE inline RecordRow record_row(const RecordsProblem& p, const GatherRecord& record,
                                             uint64_t step, uint32_t row, uint32_t sample) {
  if (sample >= p.order.count) return {nullptr, record.past_end};
  if (record.samples) return {record.samples + size_t{sample} * record.words, 0};
  const uint8_t* const rows = staged_rows(p.slots, p.slot_bytes, step);
  if (!rows) return {nullptr, record.not_staged};
  return {reinterpret_cast<const uint32_t*>(rows + row * p.row_bytes + record.offset), 0};
}

DUET_HOST_DEVICE inline void write_word(const GatherRecord& record, uint32_t row, uint32_t i,
                                        const RecordRow& from) {
  const uint32_t word = from.words ? from.words[i] : from.blank;
  const size_t place = size_t{row} * record.words + i;
  if (!record.to_bfloat16) {
    static_cast<uint32_t*>(record.to)[place] = word;
    return;
  }
  float number;
  std::memcpy(&number, &word, sizeof number);
  static_cast<bfloat16*>(record.to)[place] = bfloat16(number);
}

/// The gather of boxes: of each row those that its image still has when it is augmented, in their
/// order, and their count.
struct BoxesProblem {
  RecordsProblem
      record;       // one, whose words are Boxes and become floats; `to` nullptr: nobody reads
  int32_t* counts;  // nullptr: nobody reads them
  Augment augment;
  int32_t height, width;  // of the image
};

DUET_HOST_DEVICE inline uint32_t most_boxes(const BoxesProblem& p) {
  return p.record.records[0].words / kBoxWords;
}

/// The draw for a row's image; of the numbers that find_box() reads without augmentation none.
DUET_HOST_DEVICE inline AugmentDraw boxes_draw(const BoxesProblem& p, const SampleOfEpoch& place) {
  if (!p.augment.any()) return {};
  return draw_augment(p.augment, p.record.order.seed, place.epoch, place.sample, p.height, p.width);
}

/// Box i of a row. Returns false if the row, or its augmented image, has none there.
DUET_HOST_DEVICE inline bool find_box(const BoxesProblem& p, const AugmentDraw& draw,
                                      const RecordRow& row, uint32_t i, Box& box) {
  if (!row.words) return false;
  const uint32_t* const words = row.words + size_t{i} * kBoxWords;
  box = {static_cast<int32_t>(words[0]), static_cast<int32_t>(words[1]),
         static_cast<int32_t>(words[2]), static_cast<int32_t>(words[3]),
         static_cast<int32_t>(words[4])};
  return box.label >= 0 && (!p.augment.any() || move_box(draw, p.height, p.width, box));
}

/// Writes place `i` of row `row`.
DUET_HOST_DEVICE inline void write_box(const BoxesProblem& p, uint32_t row, uint32_t i,
                                       const Box& box) {
  float* to = static_cast<float*>(p.record.records[0].to);
  if (!to) return;
  to += (size_t{row} * most_boxes(p) + i) * kBoxWords;
  constexpr float kPixels = 1.0f / kBoxUnit;
  to[0] = static_cast<float>(box.left) * kPixels;
  to[1] = static_cast<float>(box.top) * kPixels;
  to[2] = static_cast<float>(box.right) * kPixels;
  to[3] = static_cast<float>(box.bottom) * kPixels;
  to[4] = static_cast<float>(box.label);
}
/// The same of a place without a box.
DUET_HOST_DEVICE inline void write_no_box(const BoxesProblem& p, uint32_t row, uint32_t i,
                                          const RecordRow& from) {
  float* to = static_cast<float*>(p.record.records[0].to);
  const bool staged = from.words || from.blank == p.record.records[0].past_end;
  if (staged) return write_box(p, row, i, {0, 0, 0, 0, -1});
  if (!to) return;
  to += (size_t{row} * most_boxes(p) + i) * kBoxWords;
  for (uint32_t k = 0; k < kBoxWords; ++k) to[k] = NAN;
}
DUET_HOST_DEVICE inline void write_count(const BoxesProblem& p, uint32_t row, const RecordRow& from,
                                         uint32_t count) {
  if (p.counts) p.counts[row] = from.words ? static_cast<int32_t>(count) : -1;
}

/// In batches_custom.cu; only in a build with CUDA.
void gather_on_gpu(const GatherProblem& problem, DType dtype, Layout layout, CUstream_st* stream);
void gather_records_on_gpu(const RecordsProblem& problem, CUstream_st* stream);
void gather_boxes_on_gpu(const BoxesProblem& problem, CUstream_st* stream);

}  // namespace duet
