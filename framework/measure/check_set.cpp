#include "measure/check_set.h"

#include "core/storage.h"
#include "measure/guarded_buffer.h"

namespace duet {
namespace {

/// `values` in memory of `device`; they lie in `memory` if they had to be copied there.
const double* placed(const std::vector<double>& values, Device device, Buffer* memory) {
  if (values.empty()) return nullptr;
  if (device == Device::kCpu) return values.data();
  *memory = stored({{static_cast<int64_t>(values.size())}, DType::kFloat64}, values, device);
  return static_cast<const double*>(memory->data());
}

std::vector<NamedValues> as_stored(const Layer& layer, std::vector<NamedValues> outputs) {
  for (NamedValues& output : outputs) {
    const DType dtype = desc_of(layer, output.name).dtype;
    for (double& value : output.values) value = rounded_to(dtype, value);
  }
  return outputs;
}

}  // namespace

CheckSet::CheckSet(const Layer& layer, Pass pass, const LayerData& data, const Reference& expected,
                   Device device, bool exact)
    : pass_(pass),
      exact_(exact),
      rounded_(exact ? as_stored(layer, expected.of(pass)) : std::vector<NamedValues>()),
      outputs_(exact ? rounded_ : expected.of(pass)),
      data_(std::make_shared<const StoredData>(layer, data, device)) {
  if (pass != Pass::kForward) {
    const std::vector<NamedValues>& y = expected.of(Pass::kForward);
    for (size_t i = 0; i < layer.outputs().size(); ++i) {
      y_.push_back(stored(layer.outputs()[i], y.at(i).values, device));
    }
  }
  for (const NamedValues& output : outputs_) {
    Expected& each = expected_.emplace_back();
    const double* sizes = output.sizes.empty() ? nullptr : output.sizes.data();
    each.values = {
        placed(output.values, device, &each.memory),
        placed(output.sizes, device, &each.size_memory),
        reference_sums(output.values.data(), sizes, static_cast<int64_t>(output.values.size()))};
  }
}

}  // namespace duet
