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

const LayerType& softmax_cross_entropy_type();

/// Shapes as softmax_cross_entropy.h says. `state` is what forward left for backward. No label, in
/// or out of range, may lead to an access out of bounds.
class SoftmaxCrossEntropyImpl : public ImplementationOf<SoftmaxCrossEntropyProblem> {
 public:
  using ImplementationOf::ImplementationOf;

  virtual void forward(const Run& run, const Tensor& x, const Tensor& labels, const Tensor& loss,
                       const Tensor& hits, const Tensor& state) = 0;
  /// `hits` is forward's second output, whose second entry is the number of counted rows.
  virtual void backward(const Run& run, const Tensor& x, const Tensor& labels, const Tensor& hits,
                        const Tensor& dloss, const Tensor& state, const Tensor& dx) = 0;

  void run(Pass pass, const Run& run, const LayerTensors& t) final {
    if (pass == Pass::kForward) {
      forward(run, t.x[0], t.x[1], t.y[0], t.y[1], t.state);
    } else if (t.dx[0]) {
      backward(run, t.x[0], t.x[1], t.y[1], t.dy[0], t.state, t.dx[0]);
    }
  }
};

std::vector<ImplEntry<SoftmaxCrossEntropyProblem>>& softmax_cross_entropy_impls();

}  // namespace duet
