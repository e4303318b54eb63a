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
// others z and its gradient), so that the passes may run by implementations of one family.
#pragma once

#include "layers/conv2d/conv2d.h"
#include "layers/pool2d/pool2d.h"

namespace duet {

struct Conv2dPoolReluParams {
  Conv2dParams conv;
  Pool2dParams pool;

  static Conv2dPoolReluParams read(ConfigReader& reader);
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

class Conv2dPoolReluLayer : public LayerOf<Conv2dPoolReluProblem> {
 public:
  explicit Conv2dPoolReluLayer(const Conv2dPoolReluParams& params);

  std::string_view type() const override { return "conv2d_pool_relu"; }
  const std::vector<Pass>& passes() const override { return three_passes(); }
  std::unique_ptr<Layer> clone() const override {
    return std::make_unique<Conv2dPoolReluLayer>(*this);
  }
  double flops(Pass) const override { return 2.0 * static_cast<double>(problem().conv.products()); }
  bool chooses_per_pass() const override { return false; }
  bool shares_state(std::string_view a, std::string_view b) const override {
    return family_of(a) == family_of(b);
  }
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

}  // namespace duet
