// conv2d_pool_relu: a convolution, max pooling and relu as one layer.
//
//   y = relu(max_pool2d(conv2d(x)))
//
// The order of the last two does not matter: conv -> relu -> pool has the same y and the same
// gradients, bit for bit (README.md says why), so this layer stands for both.
// Sizes: conv2d's and max_pool2d's, one after the other.
// Keys: conv2d's; and pool_kernel (required; k or [r, s]), pool_stride (default: pool_kernel),
// pool_padding 0. Parameters: conv2d's.
// Each family keeps its own kind of state from forward (the hand-written ones a packed argmax, the
// others and custom_composed z and its gradient), so that the passes may run by implementations of one
// family.
#pragma once

#include "device/side_stream.h"
#include "layers/conv2d/conv2d.h"
#include "layers/pool2d/pool2d.h"

namespace duet {

struct Conv2dPoolReluParams {
  Conv2dParams conv;
  Pool2dParams pool;
};

/// Tensors: x, w and b are conv's; y is pool's. The convolution's own output, z, is no tensor of
/// this layer: an implementation need not store it.
struct Conv2dPoolReluProblem {
  Conv2dProblem conv;
  Pool2dProblem pool;  // its x is conv's y
  DType dtype = DType::kFloat32;

  TensorDesc x_desc() const { return conv.x_desc(); }
  TensorDesc z_desc() const { return conv.y_desc(); }
  TensorDesc y_desc() const { return pool.y_desc(); }
  std::string to_string() const;
};

class Conv2dPoolReluLayer : public LayerOf<Conv2dPoolReluLayer, Conv2dPoolReluProblem> {
 public:
  explicit Conv2dPoolReluLayer(ConfigReader& reader);

  double flops(Pass) const override { return 2.0 * static_cast<double>(problem().conv.products()); }
  bool change_option(size_t number) override {
    constexpr size_t kOfConv = Conv2dParams::kOptions;
    return number < kOfConv ? params_.conv.change_option(number)
                            : params_.pool.change_option(number - kOfConv, PoolKind::kMax);
  }
  bool chooses_per_pass() const override { return false; }
  bool shares_state(std::string_view a, std::string_view b) const override;
  /// Where the two largest of a window, or the largest and 0, are nearly equal.
  void settle(const std::vector<std::vector<double>>& x, const std::vector<std::vector<double>>& w,
              std::vector<std::vector<double>>& dy) const override;

 protected:
  Conv2dPoolReluProblem infer(const std::vector<TensorDesc>& inputs,
                              const LayerOptions& options) override;

 private:
  Conv2dPoolReluParams params_;
};

const LayerType& conv2d_pool_relu_type();

/// Shapes as Conv2dPoolReluProblem says; b and db are falsy without a bias. `state` is what this
/// implementation's earlier passes of the step left for the later ones: forward, begin_backward, backward_filter,
/// and backward_data where dx is wanted. The last two only read it and may run at once.
class Conv2dPoolReluImpl : public ImplementationOf<Conv2dPoolReluProblem> {
 public:
  using ImplementationOf::ImplementationOf;

  virtual void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
                       const Tensor& y, const Tensor& state) = 0;
  /// What backward_filter does before backward_data may run beside it: what both need goes to `state`. dy is of the pooled y.
  virtual void begin_backward(const Run&, const Tensor& /*dy*/, const Tensor& /*state*/) {}
  virtual void backward_filter(const Run& run, const Tensor& x, const Tensor& y, const Tensor& dy,
                               const Tensor& state, const Tensor& dw, const Tensor& db) = 0;
  /// Called only where dx is wanted, after backward_filter.
  virtual void backward_data(const Run& run, const Tensor& y, const Tensor& dy, const Tensor& state,
                             const Tensor& w, const Tensor& dx) = 0;

  SavedTensors reads(Pass pass) const final {
    return {.x = pass == Pass::kBackwardFilter, .y = true};
  }
  void run(Pass pass, const Run& run, const LayerTensors& t) final {
    const bool bias = problem_.conv.bias;
    if (pass == Pass::kForward) {
      forward(run, t.x[0], t.w[0], bias ? t.w[1] : Tensor{}, t.y[0], t.state);
    } else if (pass == Pass::kBackwardData) {
      if (t.dx[0]) backward_data(run, t.y[0], t.dy[0], t.state, t.w[0], t.dx[0]);
    } else {
      begin_backward(run, t.dy[0], t.state);
      backward_filter(aside(run), t.x[0], t.y[0], t.dy[0], t.state, t.dw[0],
                      bias ? t.dw[1] : Tensor{});
    }
  }
};

ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_cpu_reference();

std::vector<ImplEntry<Conv2dPoolReluProblem>>& conv2d_pool_relu_impls();

}  // namespace duet
