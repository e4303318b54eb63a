#include "layers/sigmoid/sigmoid.h"

#include "layers/sigmoid/sigmoid_impls.h"

namespace duet {

const LayerType& sigmoid_type() {
  static const LayerType type = {"sigmoid", "y = 1 / (1 + exp(-x))",
                                 [](ConfigReader&) -> std::unique_ptr<Layer> {
                                   return std::make_unique<ActivationLayer>(
                                       "sigmoid", sigmoid_impls(), ActivationKind::kSigmoid);
                                 },
                                 [] { return ActivationLayer::infos(sigmoid_impls()); }};
  return type;
}

}  // namespace duet
