// The interface of a linear layer and the list of its implementations.
#pragma once

#include "layers/linear/linear.h"

namespace duet {

/// Shapes as LinearProblem says; b and db are falsy without a bias.
class LinearImpl : public Implementation {
 public:
  explicit LinearImpl(const LinearProblem& problem) : problem_(problem) {}

  /// y = x w^T + b
  virtual void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
                       const Tensor& y) = 0;
  /// dx = dy w. Called only where dx is wanted.
  virtual void backward_data(const Run& run, const Tensor& dy, const Tensor& w,
                             const Tensor& dx) = 0;
  /// dw = dy^T x; db[o] = sum over n of dy[n,o].
  virtual void backward_filter(const Run& run, const Tensor& x, const Tensor& dy, const Tensor& dw,
                               const Tensor& db) = 0;

  void run(Pass pass, const Run& run, const LayerTensors& t) final {
    if (pass == Pass::kForward) {
      forward(run, t.x[0], t.w[0], problem_.bias ? t.w[1] : Tensor{}, t.y[0]);
    } else if (pass == Pass::kBackwardData) {
      if (t.dx[0]) backward_data(run, t.dy[0], t.w[0], t.dx[0]);
    } else {
      backward_filter(run, t.x[0], t.dy[0], t.dw[0], problem_.bias ? t.dw[1] : Tensor{});
    }
  }

 protected:
  const LinearProblem problem_;
};

/// `unsupported` of the kernels that lay tiles of 32 rows or more over the output: fp32 only, and a
/// limited number of rows.
std::optional<std::string> linear_fp32_tiles(const LinearProblem& problem, Pass pass);

ImplEntry<LinearProblem> linear_cpu_reference();

/// The reference in double on a GPU; in no list (layers/gpu_reference.h).
std::unique_ptr<Implementation> make_linear_gpu_reference(const LinearProblem& problem);

std::vector<ImplEntry<LinearProblem>>& linear_impls();

}  // namespace duet
