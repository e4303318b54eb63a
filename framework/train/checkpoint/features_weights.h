// The weights of features networks (net/features.h), which a training reads once, at its beginning.
#pragma once

#include <vector>

#include "net/weights.h"

namespace duet {

/// Sets the parameters of the features networks to the tensors of FeaturesSpec::weights, a safetensors file
/// (Duet's or PyTorch's) or the folder of a run, its best checkpoint: "vgg.conv1.weight" of the network vgg is
/// "conv1.weight" there. Other tensors of the file are passed by. Reports at FeaturesSpec::mark a file that is not there
/// or damaged, and weights that are missing, of another shape or type, or not finite; those keep their initial values.
/// A network without a file is left alone.
void take_features_weights(const NetSpec& spec, Weights& weights, ConfigErrors& errors);

/// Reports what of that is known without the values.
void check_features_weights(const NetSpec& spec, const std::vector<ResolvedLayer>& layers,
                            ConfigErrors& errors);

}  // namespace duet
