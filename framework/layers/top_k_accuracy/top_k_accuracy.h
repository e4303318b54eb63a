// top_k_accuracy: the share of rows whose label's output is among the k largest; the tensors are those
// of layers/metric.h, of labels. A row has 1 or 0:
//   1 if fewer than k outputs of the row are larger than that of its label, or equal and before it
// Of equal outputs the first is the larger, as everywhere here; torch.topk leaves open which of them it
// takes. A row with a NaN has 0. Of mixed labels the one with the larger share is the label (of equal
// ones the first).
// Keys: k 5 (at most C), ignore_class (a label whose rows do not count).
#pragma once

#include "core/mixed_labels.h"
#include "layers/metric.h"

namespace duet {

struct TopKAccuracyProblem {
  Shape x = {1, 1};
  int n = 1, c = 1;  // rows, and outputs of each
  DType dtype = DType::kFloat32;
  int k = 1;
  bool mixed = false;  // the labels
  int32_t ignored_class = kNoClass;

  std::string to_string() const;
};

class TopKAccuracyImpl : public ImplementationOf<TopKAccuracyProblem> {
 public:
  using ImplementationOf::ImplementationOf;

  virtual void forward(const Run& run, const Tensor& x, const Tensor& labels,
                       const Tensor& totals) = 0;

  void run(Pass, const Run& run, const LayerTensors& t) final {
    forward(run, t.x[0], t.x[1], t.y[0]);
  }
};
using TopKAccuracyImpls = std::vector<ImplEntry<TopKAccuracyProblem>>;

const LayerType& top_k_accuracy_type();

TopKAccuracyImpls& top_k_accuracy_impls();

}  // namespace duet
