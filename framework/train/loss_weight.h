// What the loss of a batch weighs in the mean over several batches: as each is a mean by the weights of
// its rows' classes, means of them that count rows would depend on which rows come together.
#pragma once

#include "core/labels.h"
#include "net/net.h"

namespace duet {

class LossWeight {
 public:
  /// Takes memory if `loss` has class weights. Both outlive this.
  LossWeight(Context& context, const Net::Node& loss);

  /// Adds up the weights of the rows whose labels the loss reads. Queued (GPU) or done (CPU);
  /// nothing without class weights.
  void queue();
  /// Where queue() leaves the sum; null without class weights: the rows counted are the weight.
  const double* get() const { return static_cast<const double*>(sum_.data()); }
  size_t memory_bytes() const { return weights_.bytes() + sum_.bytes(); }

 private:
  Context& context_;
  const Net::Node& loss_;
  Buffer weights_;  // float {classes}
  Buffer sum_;      // double {1}
};

/// *sum = the sum of the class weights of the rows of `labels` (as labels_desc()) that count: of a
/// mixed row the mean by its shares. All memory is the context's.
void sum_class_weights(Context& context, const Tensor& labels, const float* class_weights,
                       int classes, double* sum);

/// The part of row `row`.
DUET_HOST_DEVICE inline double class_weight_of_row(const int32_t* labels, bool mixed, int64_t row,
                                                   const float* class_weights, int classes) {
  const RowLabels of_row = labels_of_row(labels, mixed, row);
  return of_row.count(classes) ? of_row.mean([=](int label) { return class_weights[label]; }) : 0.0;
}

#if DUET_WITH_CUDA
void sum_class_weights_gpu(Context& context, const Tensor& labels, const float* class_weights,
                           int classes, double* sum);
#endif

}  // namespace duet
