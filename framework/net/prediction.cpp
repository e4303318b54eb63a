#include "net/prediction.h"

namespace duet {

NetSpec prediction_of(const NetSpec& spec) {
  std::vector<bool> leads(spec.layers.size());
  const auto mark = [&](const LayerInput& input) {
    if (input.layer != kField) leads[static_cast<size_t>(input.layer)] = true;
  };
  bool found = false;  // the last loss
  for (size_t i = leads.size(); i-- > 0;) {
    const LayerSpec& layer = spec.layers[i];
    if (leads[i]) {
      for (const LayerInput& input : layer.inputs) mark(input);
    } else if (layer.layer->is_loss() && !found) {
      mark(layer.inputs[0]);
      found = true;
    }
  }
  NetSpec part = spec;
  part.layers.clear();
  std::vector<int> numbers;  // of the layers of `spec` in it
  for (size_t i = 0; i < leads.size(); ++i) {
    numbers.push_back(static_cast<int>(part.layers.size()));
    if (!leads[i]) continue;
    LayerSpec layer = spec.layers[i];
    layer.readers = 0;
    for (LayerInput& input : layer.inputs) {
      if (input.layer == kField) continue;
      input.layer = numbers[static_cast<size_t>(input.layer)];
      ++part.layers[static_cast<size_t>(input.layer)].readers;
    }
    part.layers.push_back(std::move(layer));
  }
  return part;
}

}  // namespace duet
