// Runs one implementation of a layer in guarded memory and takes its outputs out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "support/guarded_buffer.h"
#include "support/layer_case.h"

namespace duet {

/// One output of a pass: "y[0]", "dx[1]", "dw[0] weight", "running_mean".
struct NamedValues {
  std::string name;
  TensorDesc desc;
  bool parameter = false;
  std::vector<double> values;
};

/// The context that all cases of a device share (library handles are slow to make).
Context& test_context(Device device);

class LayerRunner {
 public:
  /// Makes implementation `id` for `layer` and prepares `passes`. REQUIRES: the layer outlives
  /// this, and `id` supports the passes.
  LayerRunner(const Layer& layer, const LayerCase& c, std::string_view id, const CaseData& data,
              const std::vector<Pass>& passes);

  const Layer& layer() const { return layer_; }

  /// Inputs and parameters as at the start; outputs, gradients and state poisoned.
  void reset();
  /// What y is for a backward pass whose forward pass this implementation cannot run.
  void set_y(const std::vector<NamedValues>& y);
  /// Runs a pass; inputs whose index is in `without_dx` get a falsy dx. Waits for the device.
  void run(Pass pass, const std::vector<size_t>& without_dx = {});
  /// Inputs of the last pass that were changed and guards that were overwritten, a line each.
  std::string damage() const;
  /// What `pass` writes; parameters that the case calls updated belong to forward.
  std::vector<NamedValues> outputs(Pass pass) const;
  /// Indices of the inputs that have a gradient.
  std::vector<size_t> differentiable_inputs() const;

 private:
  struct Input {
    std::string name;
    GuardedTensor* tensor;
    std::vector<std::byte> before;
  };
  std::vector<std::pair<std::string, const GuardedBuffer*>> all_buffers() const;

  const Layer& layer_;
  const LayerCase& case_;
  const CaseData& data_;
  Context& context_;
  std::unique_ptr<Implementation> impl_;
  std::vector<GuardedTensor> x_, y_, dx_, dy_, w_, dw_;
  GuardedBuffer state_, workspace_, step_;
  std::vector<Input> inputs_;  // of the last pass
};

}  // namespace duet
