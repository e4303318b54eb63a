// What the CPU's and the GPU's gather share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/tensor.h"
#include "data/augment_pixels.h"
#include "data/order.h"

struct CUstream_st;

namespace duet {

/// One gather. Pointers are to the device's memory; x is batch x channels x pixels, in float32 or
/// bfloat16.
struct GatherProblem {
  const uint64_t* step;
  const uint8_t* images;
  const float* numbers;        // instead of images, or nullptr
  const uint32_t* grey_means;  // of each image, in units of 2^-16; for augment.contrast only
  const int32_t* sample_labels;
  const float* scale;
  const float* shift;
  void* x;
  int32_t* labels;
  uint64_t seed;
  uint32_t count;
  uint32_t batch;
  uint32_t per_epoch;
  uint32_t channels;
  uint32_t pixels;
  uint32_t width;  // of an image
  bool shuffle;
  Augment augment;
};

struct SampleOfEpoch {
  uint32_t sample;
  uint64_t epoch;
};

/// The sample of row `row` in step `step`; count if the row is past the end.
DUET_HOST_DEVICE inline SampleOfEpoch sample_of(const GatherProblem& p, uint64_t step,
                                                uint32_t row) {
  uint64_t epoch;
  uint32_t batch_index;
  if (step >> 32 == 0) {  // 32-bit division is several times cheaper on a GPU
    epoch = static_cast<uint32_t>(step) / p.per_epoch;
    batch_index = static_cast<uint32_t>(step) % p.per_epoch;
  } else {
    epoch = step / p.per_epoch;
    batch_index = static_cast<uint32_t>(step % p.per_epoch);
  }
  const uint64_t position = static_cast<uint64_t>(batch_index) * p.batch + row;
  if (position >= p.count) return {p.count, epoch};
  const uint32_t i = static_cast<uint32_t>(position);
  return {p.shuffle ? shuffled(i, p.count, p.seed, epoch) : i, epoch};
}

/// The draw for a sample. REQUIRES: p.augment.any().
DUET_HOST_DEVICE inline AugmentDraw draw_of(const GatherProblem& p, const SampleOfEpoch& place) {
  return draw_augment(p.augment, p.seed, place.epoch, place.sample,
                      static_cast<int32_t>(p.pixels / p.width), static_cast<int32_t>(p.width));
}

/// Channel c of pixel `pixel` of a sample under that draw, as augmented_pixel(). REQUIRES: the pixel
/// is not in the hole.
DUET_HOST_DEVICE inline int64_t drawn_pixel(const GatherProblem& p, const AugmentDraw& draw,
                                            uint32_t sample, uint32_t c, int32_t y, int32_t x) {
  const uint8_t* image = p.images + static_cast<size_t>(sample) * p.channels * p.pixels;
  return augmented_pixel(p.augment, draw, image, p.grey_means ? p.grey_means[sample] : 0,
                         static_cast<int32_t>(p.channels), static_cast<int32_t>(p.pixels / p.width),
                         static_cast<int32_t>(p.width), static_cast<int32_t>(c), y, x);
}

/// In batches_custom.cu; only in a build with CUDA.
void gather_on_gpu(const GatherProblem& problem, DType dtype, Layout layout, CUstream_st* stream);

}  // namespace duet
