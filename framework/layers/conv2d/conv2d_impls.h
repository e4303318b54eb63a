// The interface of a convolution and the list of its implementations.
#pragma once

#include "layers/conv2d/conv2d.h"

namespace duet {

/// Shapes and layouts as Conv2dProblem says; b and db are falsy without a bias.
class Conv2dImpl : public Implementation {
 public:
  explicit Conv2dImpl(const Conv2dProblem& problem) : problem_(problem) {}

  virtual void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
                       const Tensor& y) = 0;
  /// dx = dy convolved with w transposed. Called only where dx is wanted.
  virtual void backward_data(const Run& run, const Tensor& dy, const Tensor& w,
                             const Tensor& dx) = 0;
  /// dw[k,c,r,s] = sum over n,p,q of dy[n,k,p,q] * x[n,c,...]; db[k] = sum over n,p,q of dy.
  virtual void backward_filter(const Run& run, const Tensor& x, const Tensor& dy, const Tensor& dw,
                               const Tensor& db) = 0;

  void run(Pass pass, const Run& run, const LayerTensors& t) final {
    const Tensor b = problem_.bias ? t.w[1] : Tensor{};
    if (pass == Pass::kForward) {
      forward(run, t.x[0], t.w[0], b, t.y[0]);
    } else if (pass == Pass::kBackwardData) {
      if (t.dx[0]) backward_data(run, t.dy[0], t.w[0], t.dx[0]);
    } else {
      backward_filter(run, t.x[0], t.dy[0], t.dw[0], problem_.bias ? t.dw[1] : Tensor{});
    }
  }

 protected:
  const Conv2dProblem problem_;
};

ImplEntry<Conv2dProblem> conv2d_cpu_reference();

/// The reference in double on a GPU; in no list (layers/gpu_reference.h).
std::unique_ptr<Implementation> make_conv2d_gpu_reference(const Conv2dProblem& problem);

std::vector<ImplEntry<Conv2dProblem>>& conv2d_impls();

}  // namespace duet
