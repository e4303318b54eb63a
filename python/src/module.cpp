// The extension module duet._duet: what needs the library. What users call stands in python/duet/*.py.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <filesystem>
#include <tuple>

#include "arrays.h"
#include "core/error.h"
#include "layers/layers.h"
#include "measurements.h"
#include "prepared_layer.h"
#include "torch_calls.h"
#include "train/checkpoint/safetensors.h"
#include "train/version.h"
#include "user_kernels/user_kernels.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace duet::python {
namespace {

Pass pass_from(const std::string& name) {
  for (Pass pass : {Pass::kForward, Pass::kBackward, Pass::kBackwardData, Pass::kBackwardFilter}) {
    if (name == to_string(pass)) return pass;
  }
  throw ConfigError("no pass '" + name +
                    "'; there are forward, backward, backward_data and backward_filter");
}

Math math_of(const std::string& name) {
  const auto& known = math_names();
  if (std::find(known.begin(), known.end(), name) != known.end()) return math_from(name);
  throw ConfigError("math '" + name + "': expected " + join(known, " or "));
}

Device device_of_name(const std::string& name) {
  if (name == "cpu") return Device::kCpu;
  if (name == "gpu") return Device::kGpu;
  throw ConfigError("device '" + name + "': expected cpu or gpu");
}

void make(PreparedLayer* self, const std::string& type, const std::string& keys,
          const std::vector<PythonDesc>& inputs, const std::string& backend,
          const std::string& math, const std::string& device, uint64_t seed, uint32_t stream,
          bool gradient) {
  LayerRequest request = {.type = type,
                          .keys = keys,
                          .backend = backend,
                          .math = math_of(math),
                          .device = device_of_name(device),
                          .seed = seed,
                          .stream = stream,
                          .gradient = gradient};
  for (const PythonDesc& each : inputs) request.inputs.push_back(desc_from(each));
  const nb::gil_scoped_release release;  // a search for algorithms may take seconds
  new (self) PreparedLayer(request);
}

using List = LayerAddresses::List;

void forward(PreparedLayer& self, const List& x, const List& w, const List& y, uintptr_t state,
             uintptr_t workspace, uintptr_t stream, bool training, uintptr_t step) {
  const nb::gil_scoped_release release;
  self.run(Pass::kForward, {.x = x, .y = y, .w = w, .state = state, .workspace = workspace},
           {.stream = stream, .step = step, .training = training});
}

void backward(PreparedLayer& self, const std::string& pass, const List& x, const List& w,
              const List& y, const List& dy, const List& dx, const List& dw, uintptr_t state,
              uintptr_t workspace, uintptr_t stream, bool training, uintptr_t step) {
  const Pass run = pass_from(pass);
  const nb::gil_scoped_release release;
  self.run(run,
           {.x = x,
            .y = y,
            .dx = dx,
            .dy = dy,
            .w = w,
            .dw = dw,
            .state = state,
            .workspace = workspace},
           {.stream = stream, .step = step, .training = training});
}

std::vector<PythonDesc> descs(const std::vector<TensorDesc>& all) {
  std::vector<PythonDesc> result;
  for (const TensorDesc& desc : all) result.push_back(to_python(desc));
  return result;
}

nb::list parameters(const PreparedLayer& self) {
  nb::list result;
  for (const ParameterSpec& spec : self.layer().parameters()) {
    result.append(nb::make_tuple(spec.name, to_python(spec.desc), spec.trained()));
  }
  return result;
}

nb::list gradients(const PreparedLayer& self) {
  nb::list result;
  for (size_t i = 0; i < self.layer().inputs().size(); ++i) {
    result.append(self.layer().has_gradient(i));
  }
  return result;
}

std::vector<std::string> pass_names(const PreparedLayer& self) {
  std::vector<std::string> names;
  for (Pass pass : self.passes()) names.emplace_back(to_string(pass));
  return names;
}

nb::dict implementations(const PreparedLayer& self) {
  nb::dict result;
  for (Pass pass : self.passes()) result[nb::str(to_string(pass).data())] = self.id(pass);
  return result;
}

void define_layer(nb::module_& m) {
  nb::class_<PreparedLayer>(m, "Layer",
                            "A layer bound to its inputs, with an implementation for each pass.")
      .def("__init__", make, "type"_a, "keys"_a, "inputs"_a, "backend"_a = "", "math"_a = "fp32",
           "device"_a = "cpu", "seed"_a = 0, "stream"_a = 0, "gradient"_a = true)
      .def("forward", forward, "x"_a, "w"_a, "y"_a, "state"_a = 0, "workspace"_a = 0,
           "stream"_a = 0, "training"_a = true, "step"_a = 0)
      .def("backward", backward, "pass_"_a, "x"_a, "w"_a, "y"_a, "dy"_a, "dx"_a, "dw"_a,
           "state"_a = 0, "workspace"_a = 0, "stream"_a = 0, "training"_a = true, "step"_a = 0)
      .def("workspace_bytes",
           [](const PreparedLayer& self, const std::string& pass) {
             return self.workspace_bytes(pass_from(pass));
           })
      .def("detail", [](const PreparedLayer& self,
                        const std::string& pass) { return self.detail(pass_from(pass)); })
      .def_prop_ro("type",
                   [](const PreparedLayer& self) { return std::string(self.layer().type()); })
      .def_prop_ro("problem", [](const PreparedLayer& self) { return self.layer().problem_text(); })
      .def_prop_ro("inputs", [](const PreparedLayer& self) { return descs(self.layer().inputs()); })
      .def_prop_ro("gradients", gradients, "Whether each input has one.")
      .def_prop_ro("outputs",
                   [](const PreparedLayer& self) { return descs(self.layer().outputs()); })
      .def_prop_ro("parameters", parameters)
      .def_prop_ro("passes", pass_names)
      .def_prop_ro("implementations", implementations)
      .def_prop_ro("state_bytes", &PreparedLayer::state_bytes)
      .def_prop_ro("reads_output", &PreparedLayer::reads_output)
      .def_prop_ro("untrainable", [](const PreparedLayer& self) {
        return self.layer().untrainable().value_or("");
      });
}

// duet.Error and its subclasses stand in python/duet/_errors.py; the names here are theirs.
const char* name_of(const Error& error) {
  if (dynamic_cast<const OutOfMemoryError*>(&error)) return "OutOfMemoryError";
  if (dynamic_cast<const ConfigError*>(&error)) return "ConfigError";
  if (dynamic_cast<const DataError*>(&error)) return "DataError";
  if (dynamic_cast<const UnsupportedError*>(&error)) return "UnsupportedError";
  if (dynamic_cast<const DeviceError*>(&error)) return "DeviceError";
  if (dynamic_cast<const InterruptedError*>(&error)) return "InterruptedError";
  // What a child process threw comes with its exit code alone.
  if (error.exit_code() == kExitUsage) return "ConfigError";
  if (error.exit_code() == kExitUnsupported) return "UnsupportedError";
  return "RunError";
}

void define_errors() {
  nb::register_exception_translator(
      [](const std::exception_ptr& thrown, void*) {
        try {
          std::rethrow_exception(thrown);
        } catch (const Error& error) {
          const nb::object type = nb::module_::import_("duet._errors").attr(name_of(error));
          PyErr_SetString(type.ptr(), error.what());
        }
      },
      nullptr);
}

nb::list layer_list() {
  nb::list result;
  for (const LayerType* type : layer_types()) {
    std::vector<std::string> ids;
    add_ids(*type, &ids);
    result.append(nb::make_tuple(std::string(type->name), std::string(type->summary), ids));
  }
  return result;
}

using PythonTensor = std::tuple<std::string, std::string, std::vector<int64_t>, nb::bytes>;

// (tensors, metadata); without `data` the tensors are empty.
std::pair<std::vector<PythonTensor>, safetensors::Metadata> read_tensors(const std::string& path,
                                                                         bool data) {
  const safetensors::File file = data ? safetensors::read(path) : safetensors::describe(path);
  std::vector<PythonTensor> tensors;
  for (const safetensors::Entry& entry : file.entries()) {
    tensors.emplace_back(entry.name, std::string(to_string(entry.dtype)), entry.shape,
                         nb::bytes(data ? entry.data : "", data ? entry.bytes() : 0));
  }
  return {std::move(tensors), file.metadata()};
}

// (name, dtype, shape, address) each, in the host's memory.
void write_tensors(
    const std::string& path,
    const std::vector<std::tuple<std::string, std::string, std::vector<int64_t>, uintptr_t>>&
        tensors,
    const safetensors::Metadata& metadata) {
  std::vector<safetensors::Entry> entries;
  for (const auto& [name, dtype, shape, address] : tensors) {
    safetensors::Entry& entry = entries.emplace_back();
    entry = {.name = name, .shape = shape, .data = reinterpret_cast<const void*>(address)};
    for (DType known : {DType::kFloat32, DType::kFloat64, DType::kUInt8, DType::kInt32}) {
      if (dtype == to_string(known)) entry.dtype = known;
    }
  }
  safetensors::write(path, entries, metadata);
}

void load(const std::vector<std::string>& paths) { load_kernels({paths.begin(), paths.end()}); }

}  // namespace
}  // namespace duet::python

NB_MODULE(_duet, m) {
  using namespace duet::python;
  m.doc() = "What the Python package needs of the library; use duet, duet.ops and duet.torch.";
  // The interpreter ends without taking modules apart, and layers are kept in caches until then.
  nb::set_leak_warnings(false);
  define_errors();
  define_layer(m);
  define_measurements(m);
  define_torch_calls(m);
  m.def("describe", describe, "array"_a, "name"_a);
  m.def("address", address, "array"_a);
  m.def("synchronize", synchronize_default_stream, nb::call_guard<nb::gil_scoped_release>(),
        "Waits for what was queued on CUDA's default stream.");
  m.def("layer_types", layer_list, "(name, summary, implementations) of each layer type.");
  m.def("load_kernels", load, "paths"_a);
  m.def("read_safetensors", read_tensors, "path"_a, "data"_a = true);
  m.def("write_safetensors", write_tensors, "path"_a, "tensors"_a, "metadata"_a);
  m.def("gpu_available", duet::gpu_available);
  m.def("gpu_missing_reason", [] { return duet::gpu_missing_reason("arrays on the CPU"); });
  m.def("built_with_cuda", duet::built_with_cuda);
  m.def("version", duet::version_text);
}
