#include "layers/leaky_relu/leaky_relu.h"

#include "layers/leaky_relu/leaky_relu_impls.h"

namespace duet {

const LayerType& leaky_relu_type() {
  static const LayerType type = {"leaky_relu", "y = x for x > 0, slope * x otherwise",
                                 [](ConfigReader& reader) -> std::unique_ptr<Layer> {
                                   return std::make_unique<ActivationLayer>(
                                       "leaky_relu", leaky_relu_impls(), ActivationKind::kLeakyRelu,
                                       static_cast<float>(reader.number("slope", 0.01)));
                                 },
                                 [] { return ActivationLayer::infos(leaky_relu_impls()); }};
  return type;
}

}  // namespace duet
