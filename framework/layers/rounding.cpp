#include "layers/rounding.h"

#include <algorithm>
#include <cmath>

namespace duet {

double rounding_limit(Math math, double terms) {
  constexpr double kSum = 4, kTransform = 16, kMostInFP32 = 7e-5;
  constexpr double kInTF32 = 2, kOneInBF16 = 0.5;
  const double fp32 = std::min(0x1p-24 * (kSum * std::sqrt(terms) + kTransform), kMostInFP32);
  switch (math) {
    case Math::kFP32:
      return fp32;
    case Math::kTF32:
      return kInTF32 * 0x1p-11 + fp32;
    case Math::kBF16:
      return kOneInBF16 * 0x1p-8 + fp32;
  }
  return fp32;
}

double near_tie(Math math) {
  switch (math) {
    case Math::kFP32:
      return 1e-4;
    case Math::kTF32:
      return 1e-2;
    case Math::kBF16:
      return 4e-2;
  }
  return 1e-2;
}

double storage_rounding(DType dtype) { return dtype == DType::kBFloat16 ? 0x1p-8 : 0; }

}  // namespace duet
