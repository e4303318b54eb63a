// The list of layer types. A new layer is a folder and a line in layers.cpp.
#pragma once

#include "layers/layer.h"

namespace duet {

const std::vector<const LayerType*>& layer_types();
/// nullptr if there is none of that name.
const LayerType* find_layer_type(std::string_view name);
/// Adds the ids of its implementations that `ids` does not hold yet.
void add_ids(const LayerType& type, std::vector<std::string>* ids);

}  // namespace duet
