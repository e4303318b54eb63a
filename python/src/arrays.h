// Arrays of other frameworks as Duet sees them, by DLPack or the buffer protocol, without a copy.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "core/tensor.h"

namespace duet::python {

/// (shape, dtype, layout), as Python has a TensorDesc.
using PythonDesc = std::tuple<std::vector<int64_t>, std::string, std::string>;

/// Throws ConfigError or UnsupportedError for what no layer takes.
TensorDesc desc_from(const PythonDesc& desc);
PythonDesc to_python(const TensorDesc& desc);

/// Of an array that NumPy has just made. Throws TypeError for what is no array.
uintptr_t address(nanobind::handle array);
/// (address, (shape, dtype, layout)) of an array in the host's memory, which the caller keeps alive.
/// Throws TypeError for what is no array, ConfigError for strides that are no layout of Duet's, and
/// UnsupportedError for other types and devices, in terms of `name`.
std::pair<uintptr_t, PythonDesc> describe(nanobind::handle array, const std::string& name);

}  // namespace duet::python
