// add: y = x[0] + x[1] + ..., as a + b of PyTorch without broadcasting: tensors of one shape and
// layout, summed in their order. The gradient of every input is dy itself, so that a network has no
// backward pass to run. No keys.
//
// split: hands its input to several readers: y[i] = x, so that a network has no forward pass to
// run; dx = dy[0] + dy[1] + .... A network has one wherever a value has several readers that have a
// gradient (net/resolve.h). Keys: outputs 2 (from 2 to 64).
//
// add_relu: y[i] = relu(x[0] + x[1] + ...), with as many outputs as the value has readers;
// dx[k] = dy[0] + dy[1] + ... where y > 0, and else 0. A network has one in the place of add, relu
// and the split behind them (net/fuse.h). Keys: outputs 1 (from 1 to 64).
#pragma once

#include "layers/layer.h"

namespace duet {

/// Of all. All tensors have one desc.
struct AddProblem {
  TensorDesc x;
  int64_t inputs = 1;
  int64_t outputs = 1;
  bool relu = false;
  DType dtype = DType::kFloat32;

  std::string to_string() const;
};

class AddLayer : public LayerOf<AddProblem> {
 public:
  AddLayer();

  std::string_view type() const override { return "add"; }
  const std::vector<Pass>& passes() const override { return two_passes(); }
  bool takes_many() const override { return true; }
  bool is_view(Pass pass) const override { return pass != Pass::kForward; }
  std::unique_ptr<Layer> clone() const override { return std::make_unique<AddLayer>(*this); }

 protected:
  AddProblem infer(const std::vector<TensorDesc>& inputs, const LayerOptions&) override;
};

class SplitLayer : public LayerOf<AddProblem> {
 public:
  explicit SplitLayer(int64_t outputs);

  std::string_view type() const override { return "split"; }
  const std::vector<Pass>& passes() const override { return two_passes(); }
  bool is_view(Pass pass) const override { return pass == Pass::kForward; }
  std::unique_ptr<Layer> clone() const override { return std::make_unique<SplitLayer>(*this); }

 protected:
  AddProblem infer(const std::vector<TensorDesc>& inputs, const LayerOptions&) override;

 private:
  int64_t count_;
};

class AddReluLayer : public AddLayer {
 public:
  explicit AddReluLayer(int64_t outputs);

  std::string_view type() const override { return "add_relu"; }
  bool is_view(Pass) const override { return false; }
  bool is_sum() const override { return true; }
  std::unique_ptr<Layer> clone() const override { return std::make_unique<AddReluLayer>(*this); }
  /// Where rounding decides whether the sum is above 0.
  void settle(const std::vector<std::vector<double>>& x, const std::vector<std::vector<double>>& w,
              std::vector<std::vector<double>>& dy) const override;

 protected:
  AddProblem infer(const std::vector<TensorDesc>& inputs, const LayerOptions& options) override;

 private:
  int64_t count_;
};

const LayerType& add_type();
const LayerType& add_relu_type();
const LayerType& split_type();

}  // namespace duet
