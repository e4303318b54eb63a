#include "net/weights.h"

#include "core/arena.h"

namespace duet {
namespace {

// Calls visit(physical offset, logical row-major offset) for every element.
template <class Visit>
void for_each_element(const TensorDesc& desc, Visit&& visit) {
  if (desc.shape.rank() != 4 || desc.layout == Layout::kNCHW) {
    for (int64_t i = 0; i < desc.elements(); ++i) visit(i, i);
    return;
  }
  const Shape& s = desc.shape;
  int64_t logical = 0;
  for (int64_t a = 0; a < s[0]; ++a) {
    for (int64_t b = 0; b < s[1]; ++b) {
      for (int64_t c = 0; c < s[2]; ++c) {
        for (int64_t d = 0; d < s[3]; ++d) visit(offset_of(desc, a, b, c, d), logical++);
      }
    }
  }
}

// Calls use(values) with room for a parameter's values as they lie in memory.
template <class Use>
void with_physical_values(const TensorDesc& desc, Use&& use) {
  if (desc.dtype == DType::kFloat64) return use(std::vector<double>(desc.elements()));
  use(std::vector<float>(desc.elements()));
}

std::string name_of(const ResolvedLayer& layer, const ParameterSpec& spec) {
  return layer.parameter_prefix + "." + spec.name;
}

Buffer zeros(Device device, const ArenaPlan& plan) {
  Buffer memory(device, plan.bytes());
  fill_bytes(memory.data(), device, 0, memory.bytes());
  return memory;
}

}  // namespace

Weights::Weights(const std::vector<ResolvedLayer>& layers, uint64_t seed, Device device)
    : device_(device) {
  ArenaPlan trained, buffers;
  for (const ResolvedLayer& resolved : layers) {
    for (ParameterSpec spec : resolved.layer->parameters()) {
      const std::string name = name_of(resolved, spec);
      if (!places_.emplace(name, parameters_.size()).second) continue;
      if (resolved.frozen && spec.trained()) spec.role = ParameterSpec::Role::kBuffer;
      ArenaPlan& plan = spec.trained() ? trained : buffers;
      parameters_.push_back({name, spec, resolved.features, plan.reserve(spec.desc.bytes())});
    }
  }
  trained_ = zeros(device, trained);
  buffers_ = zeros(device, buffers);
  initialise(seed);
}

const Parameter* Weights::find(const std::string& name) const {
  const auto found = places_.find(name);
  return found == places_.end() ? nullptr : &parameters_[found->second];
}

const Parameter* Weights::find(const ResolvedLayer& layer, size_t number) const {
  const ParameterSpec& spec = layer.layer->parameters().at(number);
  const Parameter* const found = find(name_of(layer, spec));
  return found && found->spec.desc == spec.desc ? found : nullptr;
}

Tensor Weights::flat(const Buffer& memory) {
  return {{{static_cast<int64_t>(memory.bytes() / sizeof(float))}}, memory.data()};
}

Tensor Weights::view(const Parameter& parameter, const Tensor& memory) {
  return {parameter.spec.desc, memory.data<char>() + parameter.offset};
}

std::vector<float> Weights::read(const Parameter& parameter, const Tensor& memory) const {
  const TensorDesc& desc = parameter.spec.desc;
  std::vector<float> values(desc.elements());
  with_physical_values(desc, [&](auto physical) {
    copy_bytes(physical.data(), Device::kCpu, view(parameter, memory).memory, device_,
               desc.bytes());
    for_each_element(desc,
                     [&](int64_t p, int64_t l) { values[l] = static_cast<float>(physical[p]); });
  });
  return values;
}

void Weights::write(const Parameter& parameter, const Tensor& memory,
                    const std::vector<float>& values) {
  changed();
  const TensorDesc& desc = parameter.spec.desc;
  with_physical_values(desc, [&](auto physical) {
    for_each_element(desc, [&](int64_t p, int64_t l) { physical[p] = values[l]; });
    copy_bytes(view(parameter, memory).memory, device_, physical.data(), Device::kCpu,
               desc.bytes());
  });
}

}  // namespace duet
