#include "net/prediction.h"

#include "net/resolve.h"

namespace duet {

NetSpec prediction_of(const NetSpec& spec) {
  const std::vector<bool> leads = leading_to(spec.layers, result_reader(spec.layers));
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
