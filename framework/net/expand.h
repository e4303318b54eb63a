// Composites: what people write instead of fifty layers. The tree of a configuration is rewritten
// before anything reads its layers, so that everybody else knows ordinary layers alone.
//
//   {name: layer1, type: residual, body: [...], shortcut: [...], activation: relu, repeat: 2}
//   {name: features, type: sequential, layers: [...]}
//
// residual: the layers of `body`, one behind the other, and those of `shortcut` (none: the value
// itself) read what the composite reads; an add layer joins what they make (He et al. 2015), and
// `activation`, a type or a layer, reads the sum. sequential: its layers, one behind the other.
// features: the layers of a network under the configuration's key `features`, up to its layer `until`, on what
// the composite reads. Each is told by a key `features` whose weights it has (features.h); they are called as
// those of a sequential, and in the network `images` is what the composite reads.
// `frozen` of a composite is that of each of its layers that does not say otherwise.
// `repeat`: any layer or composite as often, one behind the other.
//
// Names are PyTorch's: the layer conv1 in a composite layer1 is called layer1.conv1, and where that
// is repeated layer1.0.conv1, layer1.1.conv1, .... Numbers go on after those that layers before it
// have: a residual called layer2.0 and then one called layer2 with `repeat: 1`, which is layer2.1.
// `inputs` finds names of the same composite first, then those around it; a composite's name means
// what its last layer makes, that of a repeated one the last copy.
#pragma once

#include <string>
#include <vector>

#include "core/config.h"

namespace duet {

struct CompositeType {
  std::string name, summary;
};
/// residual, sequential, features
const std::vector<CompositeType>& composite_types();

/// Replaces `layers` of a configuration, and takes out of `features` what the layers hold then. Mistakes go to `errors`: false then, and the layers are
/// incomplete.
bool expand_composites(ConfigNode& root, ConfigErrors& errors);

}  // namespace duet
