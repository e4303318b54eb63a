// Features networks: the key `features` of a configuration. Its layers are written out among the others by
// expand.h, each with a key `features: NETWORK.LAYER`, which says whose weights it has.
#pragma once

#include <string>
#include <vector>

#include "core/config.h"
#include "net/spec.h"

namespace duet {

/// Reads the key `features`: {vgg: {weights: FILE}}. What expand_composites() takes may stand there, too.
std::vector<FeaturesSpec> read_features(ConfigReader& reader);

/// Reads the key `features` of a layer, which then is one of a network of `networks`: frozen, with the
/// parameters of its name.
void read_features_layer(ConfigReader& keys, const std::vector<FeaturesSpec>& networks,
                         LayerSpec* layer);

/// Reports networks of the configuration `root` that no layer belongs to, and layers that have the name of one.
void check_features(const ConfigNode& root, const NetSpec& spec, ConfigErrors& errors);

}  // namespace duet
