#include "layers/layers.h"

#include "layers/flatten/flatten.h"
#include "layers/linear/linear.h"
#include "layers/relu/relu.h"
#include "layers/softmax_cross_entropy/softmax_cross_entropy.h"

namespace duet {

const std::vector<const LayerType*>& layer_types() {
  static const std::vector<const LayerType*> types = {
      &flatten_type(),
      &linear_type(),
      &relu_type(),
      &softmax_cross_entropy_type(),
  };
  return types;
}

const LayerType* find_layer_type(std::string_view name) {
  for (const LayerType* type : layer_types()) {
    if (type->name == name) return type;
  }
  return nullptr;
}

}  // namespace duet
