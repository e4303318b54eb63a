#include "layers/layer.h"

#include <algorithm>

namespace duet {

std::string_view to_string(Pass pass) {
  switch (pass) {
    case Pass::kForward:
      return "forward";
    case Pass::kBackward:
      return "backward";
    case Pass::kBackwardData:
      return "backward_data";
    case Pass::kBackwardFilter:
      return "backward_filter";
  }
  return "?";
}

std::string_view to_string(Family family) {
  switch (family) {
    case Family::kCpu:
      return "cpu";
    case Family::kCustom:
      return "custom";
    case Family::kCudnn:
      return "cudnn";
  }
  return "?";
}

std::optional<Family> family_from(std::string_view name) {
  for (Family family : {Family::kCpu, Family::kCustom, Family::kCudnn}) {
    if (name == to_string(family)) return family;
  }
  return {};
}

Family family_of(std::string_view id) {
  const auto family = family_from(id.substr(0, id.find('_')));
  if (!family) throw std::logic_error("id '" + std::string(id) + "' names no family");
  return *family;
}

Device device_of(Family family) { return family == Family::kCpu ? Device::kCpu : Device::kGpu; }

Init read_init(ConfigReader& reader) {
  static const std::vector<std::string> names = {"default",    "xavier_uniform", "xavier_normal",
                                                 "he_uniform", "he_normal",      "zeros"};
  const std::string name = reader.choice("init", names, "default");
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<Init>(i);
  }
  return Init::kDefault;
}

const std::vector<DType>& reference_dtypes() {
  static const std::vector<DType> dtypes = {DType::kFloat32, DType::kFloat64, DType::kBFloat16};
  return dtypes;
}

const std::vector<DType>& gpu_dtypes() {
  static const std::vector<DType> dtypes = {DType::kFloat32, DType::kBFloat16};
  return dtypes;
}

std::optional<std::string> unstored(DType dtype, const std::vector<DType>& dtypes) {
  if (std::find(dtypes.begin(), dtypes.end(), dtype) != dtypes.end()) return {};
  std::vector<std::string> names;
  for (DType each : dtypes) names.emplace_back(to_string(each));
  return "stores " + join(names, " and ") + " only, " +
         (dtype == DType::kBFloat16 ? "and 'math' is bf16"
                                    : "not " + std::string(to_string(dtype)));
}

void Layer::set_inputs(const std::vector<TensorDesc>& inputs) {
  std::vector<std::string> names = {"the output of a layer"};
  for (std::string_view field : fields()) names.emplace_back(field);
  const size_t takes = names.size();
  if (inputs.size() < takes || (inputs.size() > takes && !takes_many())) {
    throw ShapeError((takes == 1
                          ? "takes one input"
                          : "takes " + std::to_string(takes) + " inputs (" + join(names) + ")") +
                     ", not " + std::to_string(inputs.size()));
  }
  inputs_ = inputs;
  for (const TensorDesc& x : inputs_) x.elements();
}

void Layer::check_sizes() const {
  for (const TensorDesc& y : outputs_) y.elements();
  for (const ParameterSpec& parameter : parameters_) parameter.desc.elements();
}

const std::vector<Pass>& two_passes() {
  static const std::vector<Pass> passes = {Pass::kForward, Pass::kBackward};
  return passes;
}

const std::vector<Pass>& three_passes() {
  static const std::vector<Pass> passes = {Pass::kForward, Pass::kBackwardFilter,
                                           Pass::kBackwardData};
  return passes;
}

}  // namespace duet
