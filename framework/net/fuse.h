// Which neighbouring layers become one block layer.
#pragma once

#include <optional>
#include <string>

#include "net/spec.h"

namespace duet {

struct FusedBlock {
  LayerSpec spec;      // the block, not yet bound
  std::string prefix;  // the name under which its parameters are saved
  size_t parts = 0;    // how many layers of the spec it replaces
};

/// The block that starts at layer `i`, or nothing. Today: conv2d + max_pool2d + relu, and conv2d +
/// relu
/// + max_pool2d (the same values and gradients), where none of the three names an implementation or
/// a layout of its own. Whether the block can run is for the caller to find out.
std::optional<FusedBlock> fuse_at(const NetSpec& spec, size_t i);

}  // namespace duet
