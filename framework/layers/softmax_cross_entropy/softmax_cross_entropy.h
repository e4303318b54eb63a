// softmax_cross_entropy: the loss of a classifier, as torch.nn.CrossEntropyLoss on class indices.
//
//   x[0]  logits, N x C            y[0]  loss, {1}: mean over counted rows of -log
//   softmax(x)[label] x[1]  labels, int32 {N}        y[1]  int32 {2}: rows whose largest logit is
//   the label's, rows
//                                        counted
//
// A row counts if its label is in 0 .. C-1; label -1 marks rows to leave out (the padding of an
// epoch's last batch). Without a counted row the loss is 0. Of equal logits the first is the
// largest; a row with a NaN is never a hit, and its NaN reaches the loss.
//   dx[0] = dy[0] * (softmax(x) - onehot(label)) / counted, 0 in rows that do not count.
// No keys.
#pragma once

#include "layers/layer.h"

namespace duet {

struct SoftmaxCrossEntropyProblem {
  int n = 1, c = 1;
  DType dtype = DType::kFloat32;

  int64_t elements() const { return int64_t{n} * c; }
  std::string to_string() const;
};

class SoftmaxCrossEntropyLayer : public LayerOf<SoftmaxCrossEntropyProblem> {
 public:
  SoftmaxCrossEntropyLayer();

  std::string_view type() const override { return "softmax_cross_entropy"; }
  const std::vector<Pass>& passes() const override { return two_passes(); }
  std::unique_ptr<Layer> clone() const override {
    return std::make_unique<SoftmaxCrossEntropyLayer>(*this);
  }
  bool takes_labels() const override { return true; }

 protected:
  SoftmaxCrossEntropyProblem infer(const std::vector<TensorDesc>& inputs,
                                   const LayerOptions& options) override;
};

const LayerType& softmax_cross_entropy_type();

}  // namespace duet
