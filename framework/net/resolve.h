// From a NetSpec to the list of layers that will run: shapes, fused blocks, inserted reorder layers
// and an implementation for every pass. Needs neither a GPU nor memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/field.h"
#include "net/spec.h"

namespace duet {

/// What `backend: auto` chooses from.
struct AutoCandidate {
  std::string id;
  double microseconds = 0.0;  // 0 if not measured
  bool far_slower = false;    // than another that is right: not measured exactly
  std::string fault = {};     // what is wrong with it, as far as it was checked
};

struct PassChoice {
  Pass pass;
  std::string id;  // kAuto until it is chosen (auto.h)
  /// Taken because the family asked for has no implementation of this layer type at all; the same
  /// in every arm.
  bool shared = false;
  /// The id asked for for the whole network, where this layer type does not have it and `id` is
  /// what the id's family has; else empty.
  std::string instead_of;
  /// With `backend: auto`, once chosen in order of their times. A layer that runs all passes by
  /// one implementation has the times of all its passes together.
  std::vector<AutoCandidate> candidates = {};
};

/// Where an input of a layer comes from.
struct InputSource {
  int layer = kField;     // its number in the list, or kField
  int output = 0;         // which of its outputs
  bool gradient = false;  // whether its gradient is needed: it depends on parameters, or on a field
                          // whose gradient is wanted, and a loss depends on it
  std::string field = {};  // of kField, its name

  /// Of the same value.
  bool operator==(const InputSource& other) const {
    return layer == other.layer && output == other.output && field == other.field;
  }
};

struct ResolvedLayer {
  std::string name;              // "conv1"; a block joins its parts' names: "conv1+pool1+relu1"
  std::string parameter_prefix;  // parameters are called "<prefix>.weight"; the same fused or not
  std::shared_ptr<Layer> layer;  // bound
  /// In the order of layer->passes(), less those that never run (runs()) and that the
  /// implementation asked for cannot do.
  std::vector<PassChoice> passes;
  std::vector<InputSource> inputs = {};  // of layer->inputs()
  double loss_weight = 1.0;              // LayerSpec::loss_weight
  bool frozen = false;                   // LayerSpec::frozen, where the network is to be trained
  std::string features = {};             // LayerSpec::features; also of a layer inserted there
  bool is_result = false;  // without_losses(): its first output is what the network makes
  /// Of the first layer of what would have been a block: which layers run one by one, and why.
  std::string unfused = {};
  /// NetSpec::fuse: what its passes leave (core/ports.h) may go to others.
  bool hands_on = false;
};

/// True if a training changes a weight of the layer.
bool is_trained(const ResolvedLayer& layer);

/// Whether a training step runs `pass` of the layer: an input without InputSource::gradient gets
/// none, and a frozen layer no gradient of a weight. A kBackward that also gives those always runs.
bool runs(const ResolvedLayer& layer, Pass pass);

/// The inputs of the layer without the fields that it reads anyway (Layer::fields).
std::vector<InputSource> named_inputs(const ResolvedLayer& layer);

/// The layers in the order they run, each after those that it reads. A value that has a gradient is
/// read by one layer alone: where there are several, a split layer stands between. `fields` are
/// those of the data set. Images are N,C,H,W in NCHW order, in float32 or float64; they get the
/// layout of the first layer that reads them, and in place of float32 what spec.math stores
/// activations in. Without `training`, sizes that cannot be trained are no mistake. `gradients_of`
/// names the floating-point fields whose gradients a backward pass also leaves
/// (Net::field_gradient()). Mistakes go to `errors`; the result is only complete if there are none.
std::vector<ResolvedLayer> resolve(const NetSpec& spec, const std::vector<BatchField>& fields,
                                   ConfigErrors& errors, bool training = true,
                                   const std::vector<std::string>& gradients_of = {});

/// The last loss, by its number in `layers` (of a NetSpec or resolved); kField if there is none.
template <class Layers>
int last_loss(const Layers& layers) {
  auto last = static_cast<int>(layers.size()) - 1;
  while (last >= 0 && !layers[static_cast<size_t>(last)].layer->is_loss()) --last;
  return last < 0 ? kField : last;
}

/// The layer whose first input is what the network makes, by its number in `layers` (of a NetSpec or
/// resolved): the last loss, or, where that reads what features networks make, the first layer of
/// these; kField of a network without losses.
template <class Layers>
int result_reader(const Layers& layers) {
  int reader = last_loss(layers);
  while (reader != kField) {
    const int from = layers[static_cast<size_t>(reader)].inputs[0].layer;
    if (from == kField || layers[static_cast<size_t>(from)].features.empty()) break;
    reader = from;
  }
  return reader;
}

/// Which of `layers` (of a NetSpec, resolved, or Net::nodes()) give layer number `reader` its first
/// input; none if that is a field.
template <class Layers>
std::vector<bool> leading_to(const Layers& layers, int reader) {
  std::vector<bool> leads(layers.size());
  const auto mark = [&](const auto& input) {
    if (input.layer != kField) leads[static_cast<size_t>(input.layer)] = true;
  };
  if (reader >= 0) mark(layers[static_cast<size_t>(reader)].inputs[0]);
  for (size_t i = layers.size(); i-- > 0;) {
    if (!leads[i]) continue;
    for (const auto& input : layers[i].inputs) mark(input);
  }
  return leads;
}

/// The layers of a network that predicts: those that lead to what the network makes; if that is a
/// field, all but losses and metrics.
std::vector<ResolvedLayer> without_losses(std::vector<ResolvedLayer> layers);

}  // namespace duet
