#include "arrays.h"

#include <nanobind/ndarray.h>

#include <optional>

#include "core/config.h"
#include "core/error.h"

namespace nb = nanobind;

namespace duet::python {
namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kInt32};

std::string dtype_text(nb::dlpack::dtype dtype) {
  const auto code = static_cast<nb::dlpack::dtype_code>(dtype.code);
  const std::string bits = std::to_string(dtype.bits);
  switch (code) {
    case nb::dlpack::dtype_code::Int:
      return "int" + bits;
    case nb::dlpack::dtype_code::UInt:
      return "uint" + bits;
    case nb::dlpack::dtype_code::Float:
      return "float" + bits;
    case nb::dlpack::dtype_code::Bfloat:
      return "bfloat" + bits;
    case nb::dlpack::dtype_code::Complex:
      return "complex" + bits;
    case nb::dlpack::dtype_code::Bool:
      return "bool";
    default:
      return "a type of " + bits + " bits";
  }
}

Shape shape_of(const std::vector<int64_t>& sizes) {
  switch (sizes.size()) {
    case 0:
      return {};
    case 1:
      return {sizes[0]};
    case 2:
      return {sizes[0], sizes[1]};
    case 3:
      return {sizes[0], sizes[1], sizes[2]};
    default:
      return {sizes[0], sizes[1], sizes[2], sizes[3]};
  }
}

// Whether memory holds the axes one behind the other, in this order from the outermost. The stride of an
// axis of one element says nothing.
bool is_dense(const nb::ndarray<nb::ro>& array, const std::vector<size_t>& order) {
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    const size_t axis = order[i];
    if (array.shape(axis) != 1 && array.stride(axis) != stride) return false;
    stride *= static_cast<int64_t>(array.shape(axis));
  }
  return true;
}

std::optional<Layout> layout_of(const nb::ndarray<nb::ro>& array) {
  std::vector<size_t> order;
  for (size_t i = 0; i < array.ndim(); ++i) order.push_back(i);
  if (is_dense(array, order)) return Layout::kNCHW;
  if (array.ndim() == 4 && is_dense(array, {0, 2, 3, 1})) return Layout::kNHWC;
  return {};
}

std::string strides_text(const nb::ndarray<nb::ro>& array) {
  std::vector<std::string> strides;
  for (size_t i = 0; i < array.ndim(); ++i) strides.push_back(std::to_string(array.stride(i)));
  return join(strides);
}

}  // namespace

TensorDesc desc_from(const PythonDesc& desc) {
  const auto& [sizes, dtype, layout] = desc;
  if (sizes.size() > Shape::kMaxRank) {
    throw ConfigError("an array has " + std::to_string(sizes.size()) +
                      " axes, and layers take at most 4; reshape it");
  }
  const Shape shape = shape_of(sizes);
  for (int64_t size : sizes) {
    if (size < 1) throw ConfigError("an array of shape " + shape.to_string() + " has no elements");
  }
  for (DType known : kTypes) {
    if (dtype != to_string(known)) continue;
    return {shape, known, layout == "nhwc" ? Layout::kNHWC : Layout::kNCHW};
  }
  throw UnsupportedError(
      "an array of " + dtype +
      ": layers take float32, float64 and bfloat16, and labels as int32; convert it");
}

PythonDesc to_python(const TensorDesc& desc) {
  std::vector<int64_t> sizes;
  for (int i = 0; i < desc.shape.rank(); ++i) sizes.push_back(desc.shape[i]);
  return {sizes, std::string(to_string(desc.dtype)), std::string(to_string(desc.layout))};
}

uintptr_t address(nb::handle handle) {
  return reinterpret_cast<uintptr_t>(nb::cast<nb::ndarray<nb::ro>>(handle).data());
}

std::pair<uintptr_t, PythonDesc> describe(nb::handle handle, const std::string& name) {
  nb::ndarray<nb::ro> array;
  if (!nb::try_cast(handle, array)) {
    const nb::object dtype = nb::getattr(handle, "dtype", nb::none());
    const std::string of = dtype.is_none() ? "" : std::string(" of ") + nb::str(dtype).c_str();
    throw nb::type_error((name + " is a " + nb::type_name(handle.type()).c_str() + of +
                          ", which neither DLPack nor the buffer protocol hands over; convert it, "
                          "e.g. numpy.asarray(" +
                          name + ", 'float32')")
                             .c_str());
  }
  if (array.device_type() != nb::device::cpu::value) {
    throw UnsupportedError(
        name + " is not in the host's memory; arrays on a GPU are taken from torch and CuPy");
  }
  std::optional<DType> dtype;
  for (DType known : kTypes) {
    if (dtype_text(array.dtype()) == to_string(known)) dtype = known;
  }
  const auto layout = layout_of(array);
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < array.ndim(); ++i) sizes.push_back(static_cast<int64_t>(array.shape(i)));
  if (sizes.size() > Shape::kMaxRank) {
    throw ConfigError(name + " has " + std::to_string(sizes.size()) +
                      " axes, and layers take at most 4; reshape it");
  }
  for (int64_t size : sizes) {
    if (size < 1)
      throw ConfigError(name + " (" + shape_of(sizes).to_string() + ") has no elements");
  }
  const std::string what =
      name + " (" + shape_of(sizes).to_string() + " " + dtype_text(array.dtype()) + ")";
  if (!dtype || array.dtype().lanes != 1) {
    const auto code = static_cast<nb::dlpack::dtype_code>(array.dtype().code);
    const bool integer =
        code == nb::dlpack::dtype_code::Int || code == nb::dlpack::dtype_code::UInt;
    throw UnsupportedError(what +
                           ": layers take float32, float64 and bfloat16, and labels as int32; "
                           "convert it, e.g. " +
                           name + ".astype('float32')" +
                           (integer ? ", or " + name + ".astype('int32') for labels" : ""));
  }
  if (!layout) {
    throw ConfigError(what + " has strides " + strides_text(array) +
                      " (elements), which is neither row-major nor channels last; copy it: "
                      "numpy.ascontiguousarray(" +
                      name + ")");
  }
  return {reinterpret_cast<uintptr_t>(array.data()),
          {sizes, std::string(to_string(*dtype)), std::string(to_string(*layout))}};
}

}  // namespace duet::python
