// What a tensor is made of (TensorDesc) and a view of one (Tensor). Neither owns memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/shape.h"

namespace duet {

enum class DType { kFloat32, kFloat64, kFloat16, kBFloat16, kUInt8, kInt32 };
size_t size_of(DType dtype);
/// "float32", "float64", "bfloat16", ...
std::string_view to_string(DType dtype);
/// What a layer that stores its activations in `dtype` sums in, and keeps its parameters, their
/// gradients and a loss in: float32 for bfloat16, else `dtype` itself.
DType accumulator_of(DType dtype);

/// Physical order of a rank-4 tensor: kNCHW stores w innermost, kNHWC stores c innermost. Filters
/// follow their layer: KCRS in an NCHW layer, KRSC in an NHWC layer. Other ranks are always
/// row-major.
enum class Layout { kNCHW, kNHWC };
/// "nchw", "nhwc"
std::string_view to_string(Layout layout);

/// The arithmetic of one run, the same for every arm. kTF32 lets matrix units round the operands of
/// products to 10 mantissa bits. kBF16 stores activations and their gradients in bfloat16, sums
/// in float32 and lets matrix units round the weights to bfloat16.
enum class Math { kFP32, kTF32, kBF16 };
/// "fp32", "tf32", "bf16"
std::string_view to_string(Math math);
/// All of them.
const std::vector<std::string>& math_names();
/// REQUIRES: one of math_names().
Math math_from(std::string_view name);
/// What activations are stored in: bfloat16 for kBF16, else float32.
DType storage_of(Math math);

struct TensorDesc {
  Shape shape;
  DType dtype = DType::kFloat32;
  Layout layout = Layout::kNCHW;

  int64_t elements() const { return shape.elements(); }
  size_t bytes() const { return static_cast<size_t>(elements()) * size_of(dtype); }
  /// "64x1x28x28 float32 nchw"
  std::string to_string() const;
  bool operator==(const TensorDesc&) const = default;
};

/// Tensors of one dtype and layout: "2x3x5x7+2x8x5x7 float32 nchw".
std::string to_text(const std::vector<TensorDesc>& descs);

/// A view of memory on one device. Copying it copies the view. A Tensor without memory is falsy
/// (an absent bias, an input whose gradient nobody needs).
struct Tensor {
  TensorDesc desc;
  void* memory = nullptr;

  explicit operator bool() const { return memory != nullptr; }
  const Shape& shape() const { return desc.shape; }
  int64_t elements() const { return desc.elements(); }
  size_t bytes() const { return desc.bytes(); }
  /// REQUIRES: T is desc.dtype's C++ type.
  template <class T>
  T* data() const {
    return static_cast<T*>(memory);
  }
};

/// Offset of logical element (i0, i1, i2, i3) = (n, c, h, w), in elements, of a rank-4 tensor.
inline int64_t offset_of(const TensorDesc& d, int64_t n, int64_t c, int64_t h, int64_t w) {
  const Shape& s = d.shape;
  return d.layout == Layout::kNCHW ? ((n * s[1] + c) * s[2] + h) * s[3] + w
                                   : ((n * s[2] + h) * s[3] + w) * s[1] + c;
}

}  // namespace duet
