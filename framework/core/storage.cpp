#include "core/storage.h"

namespace duet {

double rounded_to(DType dtype, double value) {
  switch (dtype) {
    case DType::kFloat32:
      return static_cast<float>(value);
    case DType::kBFloat16:
      return bfloat16(static_cast<float>(value));
    default:
      return value;
  }
}

}  // namespace duet
