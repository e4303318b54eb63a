#include "net/fold.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "layers/layers.h"

namespace duet {
namespace {

constexpr int kNone = -1;

// The layer that norm number `i` can be folded into, or kNone.
int convolution_before(const NetSpec& spec, size_t i) {
  const LayerSpec& norm = spec.layers[i];
  // The weights of a features network serve other layers, too.
  if (norm.layer->type() != "batch_norm2d" || norm.layout || norm.inputs.size() != 1 ||
      norm.inputs[0].layer == kField || !norm.features.empty()) {
    return kNone;
  }
  const int number = norm.inputs[0].layer;
  const LayerSpec& before = spec.layers[static_cast<size_t>(number)];
  return before.layer->type() == "conv2d" && before.readers == 1 ? number : kNone;
}

LayerSpec with_bias(LayerSpec convolution) {
  convolution.keys.at_or_add("bias") = ConfigNode::of("true");
  ConfigErrors none("");  // the keys were checked before
  ConfigReader reader(convolution.keys, convolution.name, none);
  convolution.layer = find_layer_type("conv2d")->make(reader);
  return convolution;
}

double eps_of(const LayerSpec& norm) {
  ConfigNode keys = norm.keys;
  ConfigErrors none("");
  return ConfigReader(keys, norm.name, none).number("eps", 1e-5);
}

// Parameters of a network by name; a value for each channel.
class Values {
 public:
  explicit Values(const Weights& weights) : weights_(weights) {}

  /// Empty if there is none of this name.
  std::vector<float> of(const std::string& name) const {
    const Parameter* const parameter = weights_.find(name);
    return parameter ? weights_.read(*parameter) : std::vector<float>();
  }
  double at(const std::vector<float>& values, size_t channel, double absent) const {
    return values.empty() ? absent : values.at(channel);
  }

 private:
  const Weights& weights_;
};

struct FoldedValues {
  std::vector<float> weight, bias;
};
FoldedValues folded_values(const FoldedNet::Norm& pair, const Values& from) {
  FoldedValues folded = {.weight = from.of(pair.convolution + ".weight")};
  const std::vector<float> bias = from.of(pair.convolution + ".bias");
  const std::vector<float> scale = from.of(pair.norm + ".weight");
  const std::vector<float> shift = from.of(pair.norm + ".bias");
  const std::vector<float> mean = from.of(pair.norm + ".running_mean");
  const std::vector<float> var = from.of(pair.norm + ".running_var");
  const size_t of_channel = folded.weight.size() / mean.size();
  for (size_t k = 0; k < mean.size(); ++k) {
    const double s = from.at(scale, k, 1.0) / std::sqrt(double{var[k]} + pair.eps);
    for (size_t i = k * of_channel; i < (k + 1) * of_channel; ++i) {
      folded.weight[i] = static_cast<float>(folded.weight[i] * s);
    }
    const double b = (from.at(bias, k, 0.0) - mean[k]) * s + from.at(shift, k, 0.0);
    folded.bias.push_back(static_cast<float>(b));
  }
  return folded;
}

}  // namespace

FoldedNet fold_norms(const NetSpec& spec) {
  FoldedNet folded{.spec = spec};
  folded.spec.layers.clear();
  std::vector<int> numbers;  // of the layers of `spec` in the folded one
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const int before = convolution_before(spec, i);
    if (before != kNone) {
      const int at = numbers[static_cast<size_t>(before)];
      LayerSpec& convolution = folded.spec.layers[static_cast<size_t>(at)];
      convolution = with_bias(convolution);
      convolution.readers = spec.layers[i].readers;
      folded.norms.push_back({convolution.name, spec.layers[i].name, eps_of(spec.layers[i])});
      numbers.push_back(at);
      continue;
    }
    LayerSpec layer = spec.layers[i];
    for (LayerInput& input : layer.inputs) {
      if (input.layer != kField) input.layer = numbers[static_cast<size_t>(input.layer)];
    }
    numbers.push_back(static_cast<int>(folded.spec.layers.size()));
    folded.spec.layers.push_back(std::move(layer));
  }
  return folded;
}

void fold_weights(const FoldedNet& net, const Weights& from, Weights& to) {
  const Values values(from);
  for (const Parameter& parameter : to.parameters()) {
    const std::vector<float> same = values.of(parameter.name);
    if (!same.empty()) to.write(parameter, same);
  }
  for (const FoldedNet::Norm& pair : net.norms) {
    const FoldedValues folded = folded_values(pair, values);
    for (const Parameter& parameter : to.parameters()) {
      if (parameter.name == pair.convolution + ".weight") to.write(parameter, folded.weight);
      if (parameter.name == pair.convolution + ".bias") to.write(parameter, folded.bias);
    }
  }
}

}  // namespace duet
