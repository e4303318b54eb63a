// A network in memory: activations, gradients and workspace, and the order to run. Its parameters
// are Weights, which other nets may share.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/arena.h"
#include "device/context.h"
#include "device/side_stream.h"
#include "layers/handed_moments.h"
#include "layers/inference_forward.h"
#include "layers/staged_tensors.h"
#include "net/plan.h"
#include "net/weights.h"

namespace duet {

class Net {
 public:
  using Mode = NetMode;

  /// One layer with its memory and the implementation of each pass. A tensor lies still while
  /// plan() says that it is needed; then others may take its memory.
  struct Node {
    struct Step {
      Pass pass;
      std::string id;
      bool shared = false;
      bool runs = true;                          // in a training step
      Implementation* implementation = nullptr;  // owned by Node::implementations
      std::string label;                         // "conv1 forward custom_direct"
      SharesStaged* shares = nullptr;            // it, where it shares tensors of `staged`
      std::string left = {};                     // for tables: "x to backward_filter"
    };
    std::string name;
    std::shared_ptr<Layer> layer;
    std::vector<InputSource> inputs;  // layers by their numbers in nodes()
    bool frozen = false;              // in training, too, it runs as in evaluation
    std::vector<std::unique_ptr<Implementation>> implementations;
    std::vector<Step> steps;  // in passes() order; those that never run too
    LayerTensors tensors;
    InferenceForward* inference = nullptr;  // forward's implementation, where it is one
    void* prepared = nullptr;               // its prepared memory
    /// In training, forward's implementation where it leaves the moments of y for layers that read
    /// them, or has those of x from the layer that makes it.
    LeavesMoments* leaves = nullptr;
    TakesMoments* takes = nullptr;
    ChannelMoments moments;
    std::string handed;    // for tables: "moments to bn1"
    StagedTensors staged;  // in training, what passes share

    /// Implementation::detail(), and what is handed on.
    std::string detail(const Step& step) const;
  };

  /// Plans, makes the implementations and takes all memory. Stores activations in the type of the
  /// first layer's input: float32, bfloat16, or float64 with cpu_reference everywhere (the
  /// reference of a whole network). `layers` are as plan() takes them. REQUIRES: `weights` are of
  /// these layers, maybe with another batch, and on the context's device; both outlive the network.
  Net(const std::vector<ResolvedLayer>& layers, Weights& weights, Context& context,
      Mode mode = Mode::kTraining);

  /// Queue all layers of a training step, or in kGradients of an evaluation and its gradients,
  /// first to last and last to first. backward() overwrites every gradient. An error of a layer is
  /// rethrown with its name and problem. REQUIRES: not kInference.
  void forward(const uint64_t* step);
  void backward(const uint64_t* step);
  /// Queues all layers, first to last, as in evaluation and prediction.
  void infer();

  /// Queues what inference (layers/inference_forward.h) has to make of the parameters anew, if weights().version() says
  /// that they have changed. run() and infer() begin with it; a replayed graph cannot, so that this comes before it.
  void prepare_weights();

  /// One pass of one layer; `calls()` are those of a training step, forward then backward.
  struct Call {
    Node* node;
    const Node::Step* step;
  };
  const std::vector<Call>& calls() const { return calls_; }
  /// Whose calls, layers and values calls(), nodes() and their tensors are.
  const NetPlan& plan() const { return plan_; }
  void run(const Call& call, const uint64_t* step, bool training = true);
  /// From here on run() may compute gradients of parameters on `aside`, beside the passes that follow:
  /// nothing waits for them but what overwrites what they read, and join_aside(). nullptr: no longer.
  /// The first call takes memory. REQUIRES: kTraining, on a GPU; `aside` follows context().
  void run_aside(SideStream* aside);
  void join_aside();
  /// Has made on that branch, from the parameters as they are by then, what passes of the step that begins take of them;
  /// false if that is nothing. Those of which takes_prepared() says so are to wait for it. Until join_aside().
  bool prepare_aside();
  bool takes_prepared(const Call& call) const;

  /// The fields of the batch that layers read: what a batch is gathered into.
  const FieldTensors& fields() const { return fields_; }
  /// One of them; falsy if no layer reads it.
  const Tensor& field(std::string_view name) const;
  const Tensor& input() const { return field(kImagesField); }
  const Tensor& labels() const { return field(kLabelsField); }
  /// What the network makes (NetPlan::result), as the logits.
  const Tensor& output() const { return output_; }
  /// What backward() leaves of a field that resolve() was to give a gradient, in the field's desc;
  /// falsy of any other, and if no layer reads it.
  const Tensor& field_gradient(std::string_view name) const;
  const Tensor& input_gradient() const { return field_gradient(kImagesField); }
  /// Of a network without losses and not in kInference: the gradient of output(), which the caller
  /// writes before backward(), and nothing overwrites. Else falsy.
  const Tensor& output_gradient() const { return output_gradient_; }

  struct Loss {
    const Node* node;
    float weight;  // in the objective
    /// float32 {1}: the mean loss of the batch. int32 {2}: rows predicted right, rows counted.
    const Tensor& value() const { return node->tensors.y[0]; }
    const Tensor& hits() const { return node->tensors.y[1]; }
  };
  /// In the order of the layers; none of a network that predicts.
  const std::vector<Loss>& losses() const { return losses_; }
  /// The layers that are metrics (layers/metric.h): y[0] is float32 {2}.
  const std::vector<const Node*>& metrics() const { return metrics_; }
  /// float32 {1}, which training makes less: the sum of all losses by their weights, there once the
  /// last of them has run forward. A single one of weight 1 is that itself.
  const Tensor& objective() const { return objective_; }

  std::vector<Node>& nodes() { return nodes_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  Weights& weights() const { return weights_; }
  /// The gradients of all trained parameters, laid out as weights().trained().
  Tensor gradients() const { return {weights_.trained().desc, gradient_memory_.data()}; }
  /// What each call may use while it runs.
  const Buffer& workspace() const { return workspace_; }
  /// With the weights, which other nets may share.
  size_t memory_bytes() const;
  /// Of activations and their gradients; and what they would take if none shared memory.
  size_t activation_bytes() const { return activation_memory_.bytes(); }
  size_t unshared_bytes() const { return unshared_bytes_; }

  /// Runs forward and backward, call by call; the first thing that is not finite, in words ("the
  /// output of layer conv2"), or empty. Synchronous and slow.
  std::string find_non_finite(const uint64_t* step);

  Context& context() const { return context_; }

 private:
  /// From a layer to those that read its output, by their numbers.
  struct HandedMoments {
    size_t from;
    std::vector<size_t> to;
  };

  void make_implementations(const std::vector<ResolvedLayer>& layers);
  void list_calls();
  void hand_moments_on(const std::vector<ResolvedLayer>& layers);
  void share_staged(const std::vector<ResolvedLayer>& layers);
  /// The number of a pass in calls(). REQUIRES: it runs.
  int call_of(size_t layer, Pass pass) const;
  void take_memory();
  void set_losses(const std::vector<ResolvedLayer>& layers);
  Lifetime lifetime_of(const HandedMoments& handed) const;
  void set_moments(const HandedMoments& handed, void* memory);
  void take_workspace();
  void take_prepared_memory();
  void use_weights(const std::vector<ResolvedLayer>& layers);
  void take_unwanted_memory();
  void set_constants();
  bool may_run_aside(const Call& call) const;
  void run_pass(const Call& call, const Run& run, bool trains);
  void wait_for_readers(const Call& call);
  void queue_objective();

  Context& context_;
  Weights& weights_;
  const Mode mode_;
  const NetPlan plan_;
  Buffer gradient_memory_;
  Buffer unwanted_memory_;  // for gradients that a frozen layer's backward pass cannot leave out
  Buffer activation_memory_;
  size_t unshared_bytes_ = 0;  // of activations and their gradients, one behind the other
  Buffer workspace_;
  size_t workspace_bytes_ = 0;
  Buffer prepared_memory_;
  uint64_t prepared_version_ = 0;  // of the weights
  Buffer workspace_aside_;
  size_t workspace_aside_bytes_ = 0;
  SideStream* aside_ = nullptr;
  bool prepares_aside_ = false;
  /// Gradients that are computed on it: whose tensors are read, and the mark behind them.
  struct Aside {
    const Node* node;
    size_t mark;
  };
  std::vector<Aside> asides_;
  Buffer step_;  // of infer(): number 0
  std::vector<Node> nodes_;
  FieldTensors fields_, field_gradients_;
  Tensor output_, output_gradient_, objective_;
  std::vector<Loss> losses_;
  std::vector<const Node*> metrics_;
  Buffer objective_memory_;
  std::vector<Call> calls_;
  std::vector<HandedMoments> handed_;
  struct Staged {
    Node* node;
    Tensor StagedTensors::*tensor;
    Lifetime lifetime;
  };
  std::vector<Staged> staged_;
};

}  // namespace duet
