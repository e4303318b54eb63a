// Optimizers update all parameters at once: one flat buffer of values, one of gradients, one for
// each state, one kernel. A new optimizer is a rule in a file of its own and a line in
// optimizers.cpp.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/config.h"
#include "core/step_state.h"
#include "core/tensor.h"
#include "device/context.h"

namespace duet {

/// float32 tensors of one size, on the context's device.
struct OptimizerTensors {
  Tensor w;                   // updated
  Tensor dw;                  // read
  std::vector<Tensor> state;  // state_names().size() of them, zero before the first step
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  virtual std::string_view type() const = 0;
  /// PyTorch's names: {"momentum_buffer"}, {"exp_avg", "exp_avg_sq"}.
  virtual std::vector<std::string> state_names() const = 0;
  double learning_rate() const { return learning_rate_; }

  /// Queues one step with the rate and step number in *state (device memory). Does nothing if *loss
  /// is not finite, so that a bad step cannot spoil the parameters.
  virtual void update(Context& context, const OptimizerTensors& tensors, const StepState* state,
                      const float* loss) const = 0;

 protected:
  explicit Optimizer(double learning_rate) : learning_rate_(learning_rate) {}

 private:
  double learning_rate_;
};

struct OptimizerType {
  std::string_view name;
  std::string_view summary;
  std::unique_ptr<Optimizer> (*make)(ConfigReader& reader);
};

const std::vector<const OptimizerType*>& optimizer_types();
/// Reads the map `optimizer` ({type: adam, learning_rate: 0.001, ...}), finish() included. Mistakes
/// go to the reader; the result is then some optimizer.
std::unique_ptr<Optimizer> read_optimizer(ConfigReader& reader);

}  // namespace duet
