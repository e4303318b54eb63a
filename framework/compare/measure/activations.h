// What flows through the layers of a network in training.
#pragma once

#include <map>
#include <string>

#include "measure/check/layer_data.h"
#include "train/step/training.h"

namespace duet {

/// By the layer's name.
using Activations = std::map<std::string, LayerData>;

/// Runs the next step of `training` layer by layer, without its update, and copies what each layer
/// reads. Views have none.
Activations take_activations(Training& training);

}  // namespace duet
