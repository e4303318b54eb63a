// What a network makes of each class: counts over an evaluation, from its outputs and the labels,
// whatever the loss.
#pragma once

#include <cstdint>

#include "core/tensor.h"
#include "device/context.h"

namespace duet {

/// The layout of the counts of `classes` outputs, in memory of the context's device: for each class
/// rows labelled so, rows predicted so and rows where both agree; and rows whose label is among the
/// five largest outputs.
struct ClassCounts {
  int64_t classes = 0;

  int64_t size() const { return 3 * classes + 1; }
  int64_t labelled(int64_t c) const { return c; }
  int64_t predicted(int64_t c) const { return classes + c; }
  int64_t right(int64_t c) const { return 2 * classes + c; }
  int64_t in_top5() const { return 3 * classes; }
};

/// Adds a batch to `counts`. `outputs` are N x C, `labels` int32 {N}; rows whose label is no class
/// do not count. Of equal outputs the first is the larger; a row with a NaN predicts nothing. Queued
/// (GPU) or done (CPU).
void count_classes(Context& context, const Tensor& outputs, const Tensor& labels, uint64_t* counts);

#if DUET_WITH_CUDA
void count_classes_gpu(Context& context, const Tensor& outputs, const Tensor& labels,
                       uint64_t* counts);
#endif

}  // namespace duet
