#include "layers/relu/relu.h"

#include "layers/relu/relu_impls.h"

namespace duet {

const LayerType& relu_type() {
  static const LayerType type = {"relu", "y = max(x, 0)",
                                 [](ConfigReader&) -> std::unique_ptr<Layer> {
                                   return std::make_unique<ActivationLayer>("relu", relu_impls(),
                                                                            ActivationKind::kRelu);
                                 },
                                 [] { return ActivationLayer::infos(relu_impls()); }};
  return type;
}

}  // namespace duet
