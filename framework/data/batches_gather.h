// What the CPU's and the GPU's gather share.
#pragma once

#include <cstdint>

#include "core/tensor.h"
#include "data/order.h"

struct CUstream_st;

namespace duet {

/// One gather. Pointers are to the device's memory; x is batch x channels x pixels, in float32 or
/// bfloat16.
struct GatherProblem {
  const uint64_t* step;
  const uint8_t* images;
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
  bool shuffle;
};

/// The sample of row `row` in step `step`; count if the row is past the end.
DUET_HOST_DEVICE inline uint32_t sample_of(const GatherProblem& p, uint64_t step, uint32_t row) {
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
  if (position >= p.count) return p.count;
  const uint32_t i = static_cast<uint32_t>(position);
  return p.shuffle ? shuffled(i, p.count, p.seed, epoch) : i;
}

/// In batches_custom.cu; only in a build with CUDA.
void gather_on_gpu(const GatherProblem& problem, DType dtype, Layout layout, CUstream_st* stream);

}  // namespace duet
