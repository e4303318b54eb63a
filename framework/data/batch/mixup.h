// mixup (Zhang et al. 2018): what share of a row its own image has.
#pragma once

#include <cstdint>
#include <vector>

namespace duet {

inline constexpr int kMixupBits = 12;

/// 2^kMixupBits equally likely values of Beta(alpha, alpha), the quantiles of (i + 1/2) / 2^kMixupBits,
/// in units of 1 / kWholeShare. REQUIRES: alpha > 0.
std::vector<uint32_t> mixup_shares(double alpha);

}  // namespace duet
