#include "layers/rounding.h"

#include <algorithm>
#include <cmath>

namespace duet {

double rounding_limit(Math math, double terms) {
  constexpr double kSum = 4, kTransform = 16, kMostInFP32 = 7e-5, kOperands = 2;
  const double fp32 = std::min(0x1p-24 * (kSum * std::sqrt(terms) + kTransform), kMostInFP32);
  return math == Math::kTF32 ? kOperands * 0x1p-11 + fp32 : fp32;
}

double storage_rounding(DType dtype) { return dtype == DType::kBFloat16 ? 0x1p-8 : 0; }

}  // namespace duet
