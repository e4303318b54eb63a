// Implementations that multiply float32 in parts.
#pragma once

#include <string_view>

namespace duet {

/// Whether implementation `id` multiplies float32 as sums of products of tf32, on tensor cores
/// (kernels/wgmma_split.cuh). Its error is within the limit of fp32, and not a plain sum's. The id ends so, for all
/// tables to say it. A family's choice may be one unless the network says `fp32_in_parts: false`.
inline bool multiplies_in_parts(std::string_view id) { return id.ends_with("_3xtf32"); }

}  // namespace duet
