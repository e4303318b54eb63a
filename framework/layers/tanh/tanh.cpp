#include "layers/tanh/tanh.h"

#include "layers/tanh/tanh_impls.h"

namespace duet {

const LayerType& tanh_type() {
  static const LayerType type = {"tanh", "y = tanh(x)",
                                 [](ConfigReader&) -> std::unique_ptr<Layer> {
                                   return std::make_unique<ActivationLayer>("tanh", tanh_impls(),
                                                                            ActivationKind::kTanh);
                                 },
                                 [] { return ActivationLayer::infos(tanh_impls()); }};
  return type;
}

}  // namespace duet
