// What every layer is made of:
//   Layer           a layer of one network: its keys, shape rule and parameters; knows no backend.
//   Implementation  one way to compute it on one problem, made through the layer's list
//                   (layers/implementation.h).
//   ImplEntry       a row of that list: id, what it cannot do, how to make it.
//   LayerType       a row of the list of layer types in layers.h.
// A layer's folder defines a problem struct (all sizes known), an interface derived from
// Implementation with named arguments, and the list. Networks, tests and tables use only this
// header.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/config.h"
#include "core/field.h"
#include "core/tensor.h"
#include "device/context.h"
#include "layers/added.h"
#include "layers/implementation.h"

namespace duet {

/// Initial values of a parameter. kDefault is PyTorch's for conv2d and linear: uniform within
/// +-1/sqrt(fan_in), weights and bias alike. Xavier: Glorot & Bengio 2010; He: He et al. 2015 (gain
/// sqrt(2)); a bias starts at zero with those. kOnes is no value of the key.
enum class Init { kDefault, kXavierUniform, kXavierNormal, kHeUniform, kHeNormal, kZeros, kOnes };
/// Reads the key `init` of a layer.
Init read_init(ConfigReader& reader);

struct ParameterSpec {
  /// kBuffer: no gradient, and nothing for an optimizer; forward updates it in training and reads
  /// it in evaluation (running statistics). Float32 (or float64), and saved as the trained ones
  /// are.
  enum class Role { kTrained, kBuffer };

  std::string name;  // "weight", "bias"; PyTorch's names
  TensorDesc desc;   // shape as PyTorch's (KCRS, or out_features x in_features); layout may differ
  Init init = Init::kDefault;
  int64_t fan_in = 1;
  int64_t fan_out = 1;
  Role role = Role::kTrained;

  bool trained() const { return role == Role::kTrained; }
};

/// What a network decides for a layer.
struct LayerOptions {
  Math math = Math::kFP32;
  uint64_t seed = 0;
  uint32_t stream = 0;  // the layer's Philox stream
  /// Backward passes are those of an evaluation: of a frozen layer, or of gradients of a prediction.
  bool evaluated = false;
};

class Layer {
 public:
  virtual ~Layer() = default;

  virtual std::string_view type() const = 0;
  virtual const std::vector<Pass>& passes() const = 0;
  /// True if each pass may run by another implementation (layers with weights, unless an
  /// implementation's backward passes need what its own forward kept).
  virtual bool chooses_per_pass() const { return passes().size() == 3; }
  /// True if the backward passes of one of these can go on with what the forward of the other kept,
  /// so that passes may be run by one and the other. REQUIRES: both are in the list.
  virtual bool shares_state(std::string_view a, std::string_view b) const {
    return chooses_per_pass() || a == b;
  }
  /// True for a loss (layers/loss.h): a network in training minimises the weighted sum of them all.
  virtual bool is_loss() const { return takes_labels(); }
  /// True for a loss or metric whose second input is the int32 labels of the batch.
  virtual bool takes_labels() const { return false; }
  /// True for a metric (layers/metric.h): it has forward alone, and the value is the mean of what
  /// it gives for the rows of a data set.
  virtual bool is_metric() const { return false; }
  /// Of a metric: whether a larger value is the better one.
  virtual bool larger_is_better() const { return false; }
  /// True if no layer can read its outputs: they are for the training.
  bool is_end() const { return is_loss() || is_metric(); }
  /// The fields of the batch (core/field.h) that it reads behind its first input where a
  /// configuration does not name them.
  virtual std::vector<std::string_view> fields() const {
    if (takes_labels()) return {kLabelsField};
    return {};
  }
  /// True if a backward pass gives the gradient of that input. What is read in place of a field is
  /// a constant, as the field is.
  bool has_gradient(size_t input) const { return !is_metric() && (input == 0 || fields().empty()); }
  /// Of a loss whose mean weighs the rows by their labels, a weight a class; none if all rows count
  /// alike.
  virtual std::span<const float> class_weights() const { return {}; }
  /// Of what takes labels: a label whose rows do not count, or kNoClass.
  virtual int32_t ignored_class() const { return kNoClass; }
  /// True if a network may give it more than one input.
  virtual bool takes_many() const { return false; }
  /// True if a network runs no `pass`, since it can share memory: in forward if every output is the
  /// input (under another shape), in backward if the gradient of every input is that of the output.
  /// A layer by itself, in memory of its own, copies.
  virtual bool is_view(Pass /*pass*/) const { return false; }
  /// True if all outputs are the same value, as many as a key `outputs` says, and all inputs have
  /// the same gradient: a network has one of each in memory.
  virtual bool is_sum() const { return false; }

  /// Applies the shape rule; everything below needs it. Throws ShapeError.
  virtual void bind(const std::vector<TensorDesc>& inputs, const LayerOptions& options) = 0;
  /// A copy, to be bound to other inputs.
  virtual std::unique_ptr<Layer> clone() const = 0;
  /// Gives key `number` of those that decide what the layer computes (bias, stride, eps) another
  /// value; pairs then differ in height and width. Returns false if there is no such key. The layer
  /// is to be bound again, which may refuse the value.
  virtual bool change_option(size_t /*number*/) { return false; }
  const LayerOptions& options() const { return options_; }
  const std::vector<TensorDesc>& inputs() const { return inputs_; }
  const std::vector<TensorDesc>& outputs() const { return outputs_; }
  const std::vector<ParameterSpec>& parameters() const { return parameters_; }
  /// True if it has parameters, or would with other keys.
  virtual bool may_have_parameters() const { return !parameters_.empty(); }
  /// True if it draws random masks (device/philox.h).
  virtual bool draws_masks() const { return false; }
  /// The problem in one line: "n=64 c=64 h=13 w=13 k=128 r=3 s=3 ...".
  virtual std::string problem_text() const = 0;
  /// Two times the multiply-adds of the sums of products that define `pass`; 0 where there are
  /// none.
  virtual double flops(Pass) const { return 0; }
  /// What the definition of a backward pass needs beside dy and the weight; one of x and y where
  /// either will do. Not what implementations keep in far less: where the largest of a window was.
  virtual SavedTensors saved(Pass pass) const { return {.x = pass == Pass::kBackwardFilter}; }
  /// Sets to zero the elements of dy whose gradient depends on a choice between intermediate values
  /// (which of a window is largest) that rounding decides: implementations may differ there. Values
  /// are in memory order. A layer that chooses only between its inputs has nothing to do.
  virtual void settle(const std::vector<std::vector<double>>& /*x*/,
                      const std::vector<std::vector<double>>& /*w*/,
                      std::vector<std::vector<double>>& /*dy*/) const {}

  /// Why a network cannot be trained with this layer on inputs of these sizes, or nothing if it
  /// can. Evaluation is another matter.
  virtual std::optional<std::string> untrainable() const { return {}; }

  /// True if outputs are differences of values that may be much larger, so that rounding is held to
  /// sizes() (layers/rounding.h) and not to what is left of them.
  virtual bool cancels() const { return false; }
  /// The size of every element that `pass` writes, in the order in which it has them: y and the
  /// buffers that it updates in training; dx and dw. Values and sizes are in memory order.
  /// REQUIRES: cancels().
  virtual std::vector<std::vector<double>> sizes(
      Pass, bool /*training*/, const std::vector<std::vector<double>>& /*x*/,
      const std::vector<std::vector<double>>& /*w*/,
      const std::vector<std::vector<double>>& /*dy*/) const {
    return {};
  }

  /// The list, in order. A family's choice is the first of it that supports the problem and is
  /// preferred(), or else the first that supports it.
  virtual std::vector<ImplInfo> implementations() const = 0;
  /// ImplEntry::preferred. REQUIRES: `id` is in the list and supports `pass`.
  virtual bool preferred(std::string_view /*id*/, Pass, size_t /*workspace_limit*/) const {
    return false;
  }
  /// Why implementation `id` cannot run `pass` here. REQUIRES: `id` is in the list.
  virtual std::optional<std::string> unsupported(std::string_view id, Pass pass) const = 0;
  /// REQUIRES: `id` is in the list and supported for the passes it will run.
  virtual std::unique_ptr<Implementation> make(std::string_view id, Context& context) const = 0;

 protected:
  /// What bind() begins with. Throws ShapeError if there are too many or too few, or one is too
  /// large to be counted.
  void set_inputs(const std::vector<TensorDesc>& inputs);
  /// Throws ShapeError if an output or parameter is too large to be counted.
  void check_sizes() const;

  LayerOptions options_;
  std::vector<TensorDesc> inputs_;
  std::vector<TensorDesc> outputs_;
  std::vector<ParameterSpec> parameters_;
};

/// Layer::change_option() of a pair, {height, width}.
inline void make_uneven(std::pair<int64_t, int64_t>& pair) {
  pair.first == pair.second ? void(++pair.first) : std::swap(pair.first, pair.second);
}

/// Passes of layers without and with weights.
const std::vector<Pass>& two_passes();
const std::vector<Pass>& three_passes();

/// What every bound layer of a problem P is, for those who know no more of its class.
template <class P>
class HasProblem {
 public:
  virtual const P& problem() const = 0;

 protected:
  ~HasProblem() = default;
};

/// Implements the list half of Layer for a problem struct P, which has `DType dtype` (what x, y, dx
/// and dy are stored in; parameters are accumulator_of() it) and `std::string to_string() const`.
/// Self is the class that derives from it.
template <class Self, class P>
class LayerOf : public Layer, public HasProblem<P> {
 public:
  using ImplList = std::vector<ImplEntry<P>>;

  /// `type` and `list` outlive the layer.
  LayerOf(std::string_view type, const ImplList& list,
          const std::vector<Pass>& passes = two_passes())
      : type_(type), list_(list), passes_(passes) {}

  std::string_view type() const final { return type_; }
  const std::vector<Pass>& passes() const final { return passes_; }
  std::unique_ptr<Layer> clone() const override {
    return std::make_unique<Self>(static_cast<const Self&>(*this));
  }
  void bind(const std::vector<TensorDesc>& inputs, const LayerOptions& options) final {
    options_ = options;
    set_inputs(inputs);
    outputs_.clear();
    parameters_.clear();
    problem_ = infer(inputs, options);
    check_sizes();
  }
  const P& problem() const final { return problem_; }
  std::string problem_text() const final { return problem_.to_string(); }

  std::vector<ImplInfo> implementations() const final { return with_added(type_, infos_of(list_)); }
  std::optional<std::string> unsupported(std::string_view id, Pass pass) const final {
    if (const auto added = find_added(type_, id)) return added->unsupported(*this, pass);
    const ImplEntry<P>& found = entry(id);
    if (auto reason = unstored(problem_.dtype, found.dtypes)) return reason;
    return found.unsupported(problem_, pass);
  }
  bool preferred(std::string_view id, Pass pass, size_t workspace_limit) const final {
    if (find_added(type_, id)) return false;
    const ImplEntry<P>& found = entry(id);
    return found.preferred && found.preferred(problem_, pass, workspace_limit);
  }
  std::unique_ptr<Implementation> make(std::string_view id, Context& context) const final {
    if (const auto added = find_added(type_, id)) return added->make(*this, context);
    return entry(id).make(problem_, context);
  }

 protected:
  /// The shape rule: fills outputs_ and parameters_ and returns the problem. Throws ShapeError.
  virtual P infer(const std::vector<TensorDesc>& inputs, const LayerOptions& options) = 0;

 private:
  const ImplEntry<P>& entry(std::string_view id) const {
    for (const auto& entry : list_) {
      if (entry.id == id) return entry;
    }
    throw std::logic_error("no implementation '" + std::string(id) + "' of " + std::string(type()));
  }

  const std::string_view type_;
  const ImplList& list_;
  const std::vector<Pass>& passes_;
  P problem_{};
};

/// A word of a problem's text that is short for one of the layer's keys, or for half of a pair.
struct ShapeWord {
  std::string_view word;  // "k", "r", "pad"
  std::string_view key;   // "out_channels", "kernel", "padding"
  int axis = -1;          // 0: the height of a pair, 1: its width, -1: all of the key
};

/// A layer that a block stands for.
struct BlockPart {
  std::string_view type;
  std::string_view prefix = {};  // of its keys among the block's
};

/// A row of the list of layer types (layers.h).
struct LayerType {
  std::string_view name;
  std::string_view summary;
  /// Reads the layer's own keys; mistakes go to the reader.
  std::unique_ptr<Layer> (*make)(ConfigReader& reader);
  /// Of the list in the source.
  std::vector<ImplInfo> (*list)();
  /// The words of problem_text() that are no keys.
  std::vector<ShapeWord> shape_words = {};
  /// Of a block: the sequences of layers that it stands for, with the same values and gradients.
  /// The first layer of each has the parameters, and its implementations are named as the block's
  /// are.
  std::vector<std::vector<BlockPart>> replaces = {};

  std::vector<ImplInfo> implementations() const { return with_added(name, list()); }
};

/// The row of a type whose layers are L(reader, arguments...) or L(arguments...), and whose list is
/// impls().
template <class L, auto& impls, auto... arguments>
LayerType layer_type(std::string_view name, std::string_view summary,
                     std::vector<ShapeWord> shape_words = {},
                     std::vector<std::vector<BlockPart>> replaces = {}) {
  const auto make = []([[maybe_unused]] ConfigReader& reader) -> std::unique_ptr<Layer> {
    if constexpr (std::is_constructible_v<L, ConfigReader&, decltype(arguments)...>) {
      return std::make_unique<L>(reader, arguments...);
    } else {
      return std::make_unique<L>(arguments...);
    }
  };
  return {name, summary, make, [] { return infos_of(impls()); }, shape_words, replaces};
}

}  // namespace duet
