#include "core/tensor.h"

namespace duet {

size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return 8;
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kFloat16:
    case DType::kBFloat16:
      return 2;
    case DType::kUInt8:
      return 1;
  }
  return 0;
}

std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return "float64";
    case DType::kFloat32:
      return "float32";
    case DType::kInt32:
      return "int32";
    case DType::kFloat16:
      return "float16";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kUInt8:
      return "uint8";
  }
  return "?";
}

std::string_view to_string(Layout layout) { return layout == Layout::kNCHW ? "nchw" : "nhwc"; }
std::string_view to_string(Math math) { return math == Math::kFP32 ? "fp32" : "tf32"; }

std::string TensorDesc::to_string() const {
  std::string s = shape.to_string() + " " + std::string(duet::to_string(dtype));
  if (shape.rank() == 4) s += " " + std::string(duet::to_string(layout));
  return s;
}

std::string to_text(const std::vector<TensorDesc>& descs) {
  std::string s;
  for (size_t i = 1; i < descs.size(); ++i) s += descs[i - 1].shape.to_string() + "+";
  return s + descs.back().to_string();
}

}  // namespace duet
