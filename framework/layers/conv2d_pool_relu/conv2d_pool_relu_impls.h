// The interface of conv2d_pool_relu and the list of its implementations.
#pragma once

#include "layers/conv2d_pool_relu/conv2d_pool_relu.h"

namespace duet {

/// Shapes as Conv2dPoolReluProblem says; b and db are falsy without a bias. `state` is what this
/// implementation's earlier passes of the step left for the later ones: forward, backward_filter,
/// and backward_data where dx is wanted.
class Conv2dPoolReluImpl : public Implementation {
 public:
  explicit Conv2dPoolReluImpl(const Conv2dPoolReluProblem& problem) : problem_(problem) {}

  virtual void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
                       const Tensor& y, const Tensor& state) = 0;
  virtual void backward_filter(const Run& run, const Tensor& x, const Tensor& y, const Tensor& dy,
                               const Tensor& state, const Tensor& dw, const Tensor& db) = 0;
  /// Called only where dx is wanted, after backward_filter.
  virtual void backward_data(const Run& run, const Tensor& y, const Tensor& dy, const Tensor& state,
                             const Tensor& w, const Tensor& dx) = 0;

  void run(Pass pass, const Run& run, const LayerTensors& t) final {
    const bool bias = problem_.conv.bias;
    if (pass == Pass::kForward) {
      forward(run, t.x[0], t.w[0], bias ? t.w[1] : Tensor{}, t.y[0], t.state);
    } else if (pass == Pass::kBackwardData) {
      if (t.dx[0]) backward_data(run, t.y[0], t.dy[0], t.state, t.w[0], t.dx[0]);
    } else {
      backward_filter(run, t.x[0], t.y[0], t.dy[0], t.state, t.dw[0], bias ? t.dw[1] : Tensor{});
    }
  }

 protected:
  const Conv2dPoolReluProblem problem_;
};

// The three layers by their own implementations, one after the other; z and the pooled values are
// kept in the state.
ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_cpu_reference();

// The convolution's sums are pooled before they leave the chip; the state is a packed argmax.
ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_custom_fused();

/// The reference in double on a GPU; in no list (layers/gpu_reference.h).
std::unique_ptr<Implementation> make_conv2d_pool_relu_gpu_reference(
    const Conv2dPoolReluProblem& problem);

std::vector<ImplEntry<Conv2dPoolReluProblem>>& conv2d_pool_relu_impls();

}  // namespace duet
