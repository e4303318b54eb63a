// The interface of dropout and the list of its implementations.
#pragma once

#include "layers/dropout/dropout.h"

namespace duet {

/// Shapes and mask as dropout.h says. Both passes read run.training on the host and the step
/// number in device memory.
class DropoutImpl : public Implementation {
 public:
  explicit DropoutImpl(const DropoutProblem& problem)
      : problem_(problem), mask_(problem), scale_(1.0f / (1.0f - problem.p)) {}

  virtual void forward(const Run& run, const Tensor& x, const Tensor& y, const Tensor& state) = 0;
  virtual void backward(const Run& run, const Tensor& dy, const Tensor& state,
                        const Tensor& dx) = 0;

  void run(Pass pass, const Run& run, const LayerTensors& t) final {
    if (pass == Pass::kForward) {
      forward(run, t.x[0], t.y[0], t.state);
    } else if (t.dx[0]) {
      backward(run, t.dy[0], t.state, t.dx[0]);
    }
  }

 protected:
  const DropoutProblem problem_;
  const DropoutMask mask_;
  const float scale_;
};

ImplEntry<DropoutProblem> dropout_cpu_reference();

std::vector<ImplEntry<DropoutProblem>>& dropout_impls();

}  // namespace duet
