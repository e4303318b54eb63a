// What the loss of a batch weighs in the mean over several batches: as each is a mean by the weights of
// its rows' classes, means of them that count rows would depend on which rows come together.
#pragma once

#include "core/mixed_labels.h"
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

/// The labels of a batch and what their classes weigh, in memory of a context.
struct WeightedLabels {
  const int32_t* labels = nullptr;
  int64_t rows = 0;
  bool mixed = false;
  int32_t ignored = kNoClass;
  const float* class_weights = nullptr;
  int classes = 0;

  /// 0 of a row that does not count; of a mixed one the mean by its shares.
  DUET_HOST_DEVICE double of_row(int64_t row) const {
    const RowLabels of_row = labels_of_row(labels, mixed, row, ignored);
    if (!of_row.count(classes)) return 0.0;
    return of_row.mean([this](int label) { return class_weights[label]; });
  }
};

/// *sum = the sum of what the rows weigh.
void sum_class_weights(Context& context, const WeightedLabels& labels, double* sum);

#if DUET_WITH_CUDA
void sum_class_weights_gpu(Context& context, const WeightedLabels& labels, double* sum);
#endif

}  // namespace duet
