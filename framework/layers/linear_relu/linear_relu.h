// linear_relu: a fully connected layer and relu as one layer.
//
//   y = relu(x w^T + b)
//
// Input, keys and parameters: linear's. The gradient is linear's for dz, which is dy where y > 0 (or
// is NaN) and else 0.
// Every fused implementation keeps dz as its state, from backward_filter to backward_data; those of the
// CPU and the composed ones keep linear's own output before it.
#pragma once

#include "layers/linear/linear.h"

namespace duet {

class LinearReluLayer : public LayerOf<LinearReluLayer, LinearProblem> {
 public:
  explicit LinearReluLayer(ConfigReader& reader);

  double flops(Pass) const override { return 2.0 * static_cast<double>(problem().products()); }
  bool change_option(size_t number) override { return params_.change_option(number); }
  /// backward_data finds dz made, which is as large as dy.
  SavedTensors saved(Pass pass) const override {
    const bool first = pass == Pass::kBackwardFilter;
    return {.x = first, .y = first};
  }
  bool chooses_per_pass() const override { return false; }
  bool shares_state(std::string_view a, std::string_view b) const override;
  /// Where x w^T + b is nearly 0.
  void settle(const std::vector<std::vector<double>>& x, const std::vector<std::vector<double>>& w,
              std::vector<std::vector<double>>& dy) const override;

 protected:
  LinearProblem infer(const std::vector<TensorDesc>& inputs, const LayerOptions& options) override;

 private:
  LinearParams params_;
};

const LayerType& linear_relu_type();

std::vector<ImplEntry<LinearProblem>>& linear_relu_impls();

}  // namespace duet
