// The interface of batch_norm2d and batch_norm1d, and the list of their implementations.
#pragma once

#include "layers/batch_norm/batch_norm.h"

namespace duet {

/// Weight and bias, or their gradients, are falsy without affine; gradients of buffers always.
struct BatchNormParameters {
  Tensor weight, bias, running_mean, running_var;
};

/// Both passes read run.training on the host.
class BatchNormImpl : public Implementation {
 public:
  explicit BatchNormImpl(const BatchNormProblem& problem) : problem_(problem) {}

  virtual void forward(const Run& run, const Tensor& x, const BatchNormParameters& w,
                       const Tensor& y, const Tensor& state) = 0;
  /// dx or both of dw are falsy where nobody needs them; one is not.
  virtual void backward(const Run& run, const Tensor& x, const BatchNormParameters& w,
                        const Tensor& dy, const Tensor& state, const Tensor& dx,
                        const BatchNormParameters& dw) = 0;

  void run(Pass pass, const Run& run, const LayerTensors& t) final {
    if (pass == Pass::kForward) {
      forward(run, t.x[0], named(t.w), t.y[0], t.state);
    } else if (t.dx[0] || problem_.affine) {
      backward(run, t.x[0], named(t.w), t.dy[0], t.state, t.dx[0], named(t.dw));
    }
  }

 protected:
  const BatchNormProblem problem_;

 private:
  BatchNormParameters named(const std::vector<Tensor>& w) const {
    return problem_.affine ? BatchNormParameters{w[0], w[1], w[2], w[3]}
                           : BatchNormParameters{{}, {}, w[0], w[1]};
  }
};

ImplEntry<BatchNormProblem> batch_norm_cpu_reference();

std::vector<ImplEntry<BatchNormProblem>>& batch_norm_impls();

}  // namespace duet
