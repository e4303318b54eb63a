// What cuDNN's softmax leaves to do for a loss: pick each label's log-probability, take the mean,
// count the hits; and backwards, spread the loss's gradient onto the picked entries.
#pragma once

#include "layers/softmax_cross_entropy/softmax_cross_entropy.h"
#include "layers/softmax_cross_entropy/softmax_cross_entropy_rows.cuh"

namespace duet {

class LabelPick {
 public:
  explicit LabelPick(const SoftmaxCrossEntropyProblem& problem)
      : problem_(problem), plan_(problem.n, problem.c) {}

  /// Of forward(), in Run::workspace.
  size_t workspace_bytes() const { return plan_.totals_bytes(); }

  /// loss and hits from the logits x and their log-softmax, both N x C. Zeroes the rows of
  /// log_softmax that do not count, so that a NaN there cannot reach dx.
  void forward(const Run& run, const float* x, float* log_softmax, const Tensor& labels,
               const Tensor& loss, const Tensor& hits);
  /// d_log_softmax (N x C) = -dloss / counted at the label of each counted row, 0 elsewhere.
  void backward(const Run& run, const Tensor& labels, const Tensor& hits, const Tensor& dloss,
                float* d_log_softmax);

 private:
  const SoftmaxCrossEntropyProblem problem_;
  const loss_rows::Plan plan_;
  const loss_rows::Ticket ticket_;
};

}  // namespace duet
