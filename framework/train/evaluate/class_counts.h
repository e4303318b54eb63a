// What a network makes of each class: counts over an evaluation, from its outputs and the labels,
// whatever the loss.
#pragma once

#include <cstdint>

#include "core/labels.h"
#include "core/tensor.h"
#include "device/context.h"
#include "optim/advance.h"

namespace duet {

/// The layout of the counts of `classes` outputs, in memory of the context's device: for each class
/// rows labelled so, rows predicted so and rows where both agree; of up to kMostPaired classes for
/// each pair of them the rows labelled as one and predicted as the other; and rows whose label is
/// among the five largest outputs.
struct ClassCounts {
  static constexpr int64_t kMostPaired = 1024;  // 8 MiB
  int64_t classes = 0;

  constexpr int64_t size() const { return 3 * classes + pairs() + 1; }
  constexpr int64_t labelled(int64_t c) const { return c; }
  constexpr int64_t predicted(int64_t c) const { return classes + c; }
  constexpr int64_t right(int64_t c) const { return 2 * classes + c; }
  constexpr int64_t pairs() const { return classes <= kMostPaired ? classes * classes : 0; }
  /// REQUIRES: pairs() > 0.
  constexpr int64_t pair(int64_t label, int64_t predicted) const {
    return (3 + label) * classes + predicted;
  }
  constexpr int64_t in_top5() const { return size() - 1; }
};

/// Rows of outputs and their labels, in memory: those of a loss of labels (layers/loss.h).
struct LabelledRows {
  Tensor outputs, labels;
  int32_t ignored = kNoClass;

  int64_t classes() const { return outputs.desc.shape.last(); }
  int64_t count() const { return outputs.elements() / classes(); }
  /// Of the labels: those of mixed ones begin with the first.
  int64_t label_columns() const { return labels.elements() / count(); }
};

/// Adds a batch to `counts`. Of mixed labels the first of each row is taken; rows whose label is no
/// class, or ignored, do not count. Of equal outputs the first is the larger; a row with a NaN
/// predicts nothing. And, of a `state`, advance(): both end a batch, in one kernel. Queued (GPU) or
/// done (CPU).
void count_classes(Context& context, const LabelledRows& rows, uint64_t* counts,
                   StepState* state = nullptr, const StepEnd& end = {});

#if DUET_WITH_CUDA
void count_classes_gpu(Context& context, const LabelledRows& rows, uint64_t* counts,
                       StepState* state, const StepEnd& end);
#endif

}  // namespace duet
