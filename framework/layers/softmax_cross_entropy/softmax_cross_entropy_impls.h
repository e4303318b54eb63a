// The interface of the loss and the list of its implementations.
#pragma once

#include "layers/softmax_cross_entropy/softmax_cross_entropy.h"

namespace duet {

/// Shapes as softmax_cross_entropy.h says. `state` is what forward left for backward. No label, in
/// or out of range, may lead to an access out of bounds.
class SoftmaxCrossEntropyImpl : public Implementation {
 public:
  explicit SoftmaxCrossEntropyImpl(const SoftmaxCrossEntropyProblem& problem) : problem_(problem) {}

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

 protected:
  const SoftmaxCrossEntropyProblem problem_;
};

ImplEntry<SoftmaxCrossEntropyProblem> softmax_cross_entropy_cpu_reference();

std::vector<ImplEntry<SoftmaxCrossEntropyProblem>>& softmax_cross_entropy_impls();

}  // namespace duet
