// The interface of concat and the list of its implementations.
#pragma once

#include "layers/concat/concat.h"

namespace duet {

/// Tensors as concat.h says.
class ConcatImpl : public Implementation {
 public:
  explicit ConcatImpl(const ConcatProblem& problem) : problem_(problem) {}

  virtual void join(const Run& run, const std::vector<Tensor>& x, const Tensor& y) = 0;
  /// dx[i] is falsy where nobody needs it.
  virtual void cut(const Run& run, const Tensor& dy, const std::vector<Tensor>& dx) = 0;

  void run(Pass pass, const Run& run, const LayerTensors& t) final {
    if (pass == Pass::kForward) {
      join(run, t.x, t.y[0]);
    } else {
      cut(run, t.dy[0], t.dx);
    }
  }

 protected:
  const ConcatProblem problem_;
};

ImplEntry<ConcatProblem> concat_cpu_reference();

std::vector<ImplEntry<ConcatProblem>>& concat_impls();

}  // namespace duet
