// Optimizers update all parameters at once: one flat buffer of values, one of gradients, one for
// each state, one kernel. A new optimizer is a rule in rules.h and a line in optimizers.cpp.
#pragma once

#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/config.h"
#include "core/tensor.h"
#include "device/context.h"
#include "optim/advance.h"

namespace duet {

/// Where a parameter stands in the flat buffers, in elements.
struct ParameterPlace {
  int64_t offset = 0;  // a multiple of kKindElements (update.h)
  Shape shape;
};

/// float32 tensors of one size, on the context's device.
struct OptimizerTensors {
  Tensor w;                   // updated
  Tensor dw;                  // read
  std::vector<Tensor> state;  // state_names().size() of them, zero before the first step
  Tensor ema = {};            // the average of w, if options().ema; the first step sets it
  std::vector<ParameterPlace> parameters = {};
};

/// What any optimizer may be asked for.
struct OptimizerOptions {
  double clip_norm = 0.0;    // torch.nn.utils.clip_grad_norm_ of all gradients together; 0: none
  bool decay_biases = true;  // else only parameters of two axes or more decay
  double ema = 0.0;          // decay of the average of the weights; 0: none
};

/// An optimizer on the tensors of a training.
class Update {
 public:
  virtual ~Update() = default;

  /// Queues one step with the rate and step number in *state (device memory), and advance(). Leaves the
  /// parameters alone if the loss is not finite, so that a bad step cannot spoil them.
  virtual void queue(StepState* state, const StepEnd& end) = 0;
  /// Device memory beside the tensors.
  virtual size_t memory_bytes() const = 0;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  virtual std::string_view type() const = 0;
  /// PyTorch's names: {"momentum_buffer"}, {"exp_avg", "exp_avg_sq"}.
  virtual std::vector<std::string> state_names() const = 0;
  double learning_rate() const { return learning_rate_; }
  const OptimizerOptions& options() const { return options_; }
  void set_options(const OptimizerOptions& options) { options_ = options; }

  /// Takes what other memory it needs. `context` and the tensors' memory must outlive the result.
  virtual std::unique_ptr<Update> bind(Context& context, const OptimizerTensors& tensors) const = 0;

 protected:
  explicit Optimizer(double learning_rate) : learning_rate_(learning_rate) {}

 private:
  double learning_rate_;
  OptimizerOptions options_;
};

/// What is added to a root before a division by it. With 0 a weight whose gradients have all been 0,
/// as those behind a dead relu, would become 0 / 0.
inline float read_epsilon(ConfigReader& reader) {
  return static_cast<float>(reader.number("epsilon", 1e-8, 1e-30));
}

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
