#include "core/tensor.h"

#include <stdexcept>

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

DType accumulator_of(DType dtype) { return dtype == DType::kBFloat16 ? DType::kFloat32 : dtype; }

std::string_view to_string(Math math) { return math_names()[static_cast<size_t>(math)]; }

const std::vector<std::string>& math_names() {
  static const std::vector<std::string> names = {"fp32", "tf32", "bf16"};  // in Math's order
  return names;
}

Math math_from(std::string_view name) {
  for (size_t i = 0; i < math_names().size(); ++i) {
    if (math_names()[i] == name) return static_cast<Math>(i);
  }
  throw std::logic_error("no math '" + std::string(name) + "'");
}

DType storage_of(Math math) { return math == Math::kBF16 ? DType::kBFloat16 : DType::kFloat32; }

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
