// What cuDNN's softmax leaves to do for a loss: pick each label's log-probability, take the mean,
// count the hits; and backwards, spread the loss's gradient onto the picked entries.
#pragma once

#include "layers/loss_rows.cuh"
#include "layers/softmax_cross_entropy/soft_targets_cuda.h"
#include "layers/softmax_cross_entropy/softmax_cross_entropy.h"

namespace duet {

class LabelPick {
 public:
  explicit LabelPick(const SoftmaxCrossEntropyProblem& problem)
      : problem_(problem), targets_(problem), plan_(problem.n, problem.c) {}

  /// Of forward(), in Run::workspace.
  size_t workspace_bytes() const { return plan_.totals_bytes(); }

  /// loss and hits from the logits x and their log-softmax, both N x C. Zeroes the rows of
  /// log_softmax that do not count, so that a NaN there cannot reach dx. *weight is kept for
  /// backward().
  void forward(const Run& run, const float* x, float* log_softmax, const Tensor& labels,
               const Tensor& loss, const Tensor& hits, float* weight);
  /// d_log_softmax (N x C): in counted rows -dloss / *weight times the targets, 0 in others.
  void backward(const Run& run, const Tensor& labels, const Tensor& dloss, const float* weight,
                float* d_log_softmax);

 private:
  const SoftmaxCrossEntropyProblem problem_;
  const SoftTargetsOnGpu targets_;
  const loss_rows::Plan plan_;
  const loss_rows::Ticket ticket_;
};

}  // namespace duet
