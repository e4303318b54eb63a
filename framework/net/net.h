// A network in memory: parameters, activations, gradients and workspace, and the order to run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/context.h"
#include "net/resolve.h"

namespace duet {

/// One parameter of the network: a view into the flat buffers.
struct Parameter {
  std::string name;  // "conv1.weight"
  ParameterSpec spec;
  size_t offset = 0;  // bytes, in parameters(), gradients() and every optimizer state
};

class Net {
 public:
  /// One layer with its memory and the implementation of each pass.
  struct Node {
    struct Step {
      Pass pass;
      std::string id;
      bool shared = false;
      bool runs = true;                          // in a training step
      Implementation* implementation = nullptr;  // owned by Node::implementations
      std::string label;                         // "conv1 forward custom_direct"
    };
    std::string name;
    std::shared_ptr<Layer> layer;
    std::vector<InputSource> inputs;  // layers by their numbers in nodes()
    std::vector<std::unique_ptr<Implementation>> implementations;
    std::vector<Step> steps;  // in passes() order; those that never run too
    LayerTensors tensors;
  };

  /// Makes the implementations, plans and takes all memory, and initialises the parameters from
  /// `seed`. Computes in the type of the first layer's input: float32, or float64 with
  /// cpu_reference everywhere (the reference of a whole network). REQUIRES: `context` outlives the
  /// network; `layers` came from resolve() without errors.
  Net(const std::vector<ResolvedLayer>& layers, uint64_t seed, Context& context);

  /// Queue all layers, first to last and last to first. backward() overwrites every gradient. An
  /// error of a layer is rethrown with its name and problem.
  void forward();
  void backward();

  /// One pass of one layer; `calls()` are those of a training step, forward then backward.
  struct Call {
    Node* node;
    const Node::Step* step;
  };
  const std::vector<Call>& calls() const { return calls_; }
  void run(Node& node, const Node::Step& step);

  const Tensor& input() const { return nodes_.front().tensors.x[0]; }
  const Tensor& labels() const { return nodes_.back().tensors.x[1]; }
  /// float32 {1}: the mean loss of the batch. int32 {2}: rows predicted right, rows counted.
  const Tensor& loss() const { return nodes_.back().tensors.y[0]; }
  const Tensor& hits() const { return nodes_.back().tensors.y[1]; }

  std::vector<Node>& nodes() { return nodes_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  /// Number of values that are trained.
  int64_t parameter_count() const;
  /// All parameters in one tensor of floats; so are all gradients. The gaps between views are zero.
  Tensor flat_parameters() const { return flat(parameter_memory_); }
  Tensor flat_gradients() const { return flat(gradient_memory_); }
  size_t memory_bytes() const;

  /// A parameter's values on the CPU in PyTorch's order (KCRS), and back. `memory` is the flat
  /// buffer to read (parameters or an optimizer state). Synchronous.
  std::vector<float> read(const Parameter& parameter, const Tensor& memory) const;
  void write(const Parameter& parameter, const Tensor& memory, const std::vector<float>& values);

  /// The first thing that is not finite after a forward and a backward pass, in words ("layer
  /// conv2: output"), or empty. Synchronous and slow.
  std::string find_non_finite() const;

  Context& context() const { return context_; }

 private:
  void plan_parameters(const std::vector<ResolvedLayer>& layers);
  void make_implementations(const std::vector<ResolvedLayer>& layers);
  void plan_memory();
  void share_views();
  void plan_calls();
  void initialise(uint64_t seed);
  Tensor flat(const Buffer& buffer) const;

  Context& context_;
  Buffer parameter_memory_;
  Buffer gradient_memory_;
  Buffer activation_memory_;
  Buffer workspace_;
  std::vector<Node> nodes_;
  std::vector<Call> calls_;
  size_t forward_calls_ = 0;  // how many of calls_ are forward passes
  std::vector<Parameter> parameters_;
  size_t parameter_bytes_ = 0;
};

/// The values that `parameter` number `index` of a network starts with, in PyTorch's order; the
/// same bits in every arm.
std::vector<float> initial_values(const ParameterSpec& spec, uint64_t seed, uint32_t index);

}  // namespace duet
