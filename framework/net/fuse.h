// Which neighbouring layers become one block layer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "net/spec.h"

namespace duet {

struct FusedBlock {
  LayerSpec spec;              // the block, not yet bound; it names what its first layer names
  size_t parts = 0;            // how many layers of the spec it replaces
  std::string hindrance = {};  // why its layers must run one by one, or empty
};

/// The blocks that may start at layer `i`, the longest first: of the sequences that layer types replace
/// (LayerType::replaces), those where nobody else reads what stands between the layers. One is hindered
/// where a layer names a layout, where one behind the first names an implementation, and where the
/// first names one that the block does not have. Whether a block can run is for the caller to
/// find out.
std::vector<FusedBlock> blocks_at(const NetSpec& spec, size_t i);

/// The types of the blocks that start with such a layer.
std::vector<const LayerType*> block_types_of(std::string_view type);

/// The first name that `backend` gives and `layer` does not know: which is neither a family, nor
/// kAuto, nor in its list. Empty if there is none.
std::string unknown_name(const Layer& layer, const BackendChoice& backend);

}  // namespace duet
