// Which neighbouring layers become one block layer.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "net/spec.h"

namespace duet {

struct FusedBlock {
  LayerSpec spec;              // the block, not yet bound; it names what its first layer names
  std::string prefix;          // the name under which its parameters are saved
  size_t parts = 0;            // how many layers of the spec it replaces
  std::string hindrance = {};  // why its layers must run one by one, or empty
};

/// The block that starts at layer `i`, or nothing: the longest sequence that a layer type replaces
/// (LayerType::replaces), where nobody else reads what stands between its layers. It is hindered
/// where a layer names a layout, where one behind the first names an implementation, and where the
/// first names one that the block does not have. Whether the block can run is for the caller to
/// find out.
std::optional<FusedBlock> fuse_at(const NetSpec& spec, size_t i);

/// The type of the blocks that start with such a layer, or nullptr.
const LayerType* block_type_of(std::string_view type);

/// The first name that `backend` gives and `layer` does not know: which is neither a family, nor
/// kAuto, nor in its list. Empty if there is none.
std::string unknown_name(const Layer& layer, const BackendChoice& backend);

}  // namespace duet
