#include "program_data.h"

#include <algorithm>

#include "core/mixed_labels.h"
#include "core/storage.h"
#include "measure/check/comparison_sums.h"
#include "recording.h"
#include "values.h"

namespace duet {

ProgramInput input_of(const RecordedLayer& recorded, const NamedMemory& memory) {
  const auto seed = static_cast<unsigned>(&memory - recorded.memory.data());
  const auto count = static_cast<size_t>(memory.desc.elements());
  const std::string text = std::to_string(count) + ", " + std::to_string(seed);
  if (memory.name == "labels") {
    const TensorDesc& x = recorded.layer->inputs()[0];
    const auto classes = static_cast<size_t>(x.shape.last());
    const bool mixed = are_mixed(memory.desc, x);
    const size_t rows = mixed ? count / kMixedWords : count;
    return {"class_labels(" + std::to_string(rows) + ", " + std::to_string(classes) +
                (mixed ? ", true)" : ", false)"),
            class_labels(rows, classes, mixed)};
  }
  if (memory.name == "dloss") return {"{1}", {1}};
  // A normalisation that keeps values apart, also in bfloat16.
  if (memory.name == "weight" || memory.name == "running_var") {
    return {"drawn(" + text + ", 1, 0.5f)", drawn(count, seed, 1, 0.5f)};
  }
  if (memory.name == "bias") {
    return {"drawn(" + text + ", 0, 0.125f)", drawn(count, seed, 0, 0.125f)};
  }
  return {"drawn(" + text + ")", drawn(count, seed)};
}

ProgramData program_data(const RecordedLayer& recorded) {
  const Layer& layer = *recorded.layer;
  ProgramData program;
  LayerData& data = program.data;
  data.step = 0;
  data.x.resize(layer.inputs().size());
  data.w.resize(layer.parameters().size());
  data.dy.resize(layer.outputs().size());
  for (const NamedMemory& memory : recorded.memory) {
    if (!memory.part) continue;
    std::vector<double>& values = (data.*memory.part)[memory.index];
    for (const float value : input_of(recorded, memory).values) {
      values.push_back(rounded_to(memory.desc.dtype, value));
    }
  }
  if (recorded.pass == Pass::kForward) program.zeroed.resize(data.dy.size());
  if (recorded.pass == Pass::kForward) return program;
  const std::vector<std::vector<double>> drawn_dy = data.dy;
  layer.settle(data.x, data.w, data.dy);
  for (size_t k = 0; k < data.dy.size(); ++k) {
    std::vector<double>& places = program.zeroed.emplace_back();
    for (size_t i = 0; i < data.dy[k].size(); ++i) {
      if (data.dy[k][i] != drawn_dy[k][i]) places.push_back(static_cast<double>(i));
    }
  }
  return program;
}

std::vector<const NamedMemory*> outputs_of(const RecordedLayer& recorded) {
  std::vector<const NamedMemory*> outputs;
  for (const NamedMemory& memory : recorded.memory) {
    const bool dx = memory.output.starts_with("dx["), dw = memory.output.starts_with("dw[");
    const bool written = recorded.pass == Pass::kForward          ? !dx && !dw
                         : recorded.pass == Pass::kBackwardData   ? dx
                         : recorded.pass == Pass::kBackwardFilter ? dw
                                                                  : dx || dw;
    if (!memory.output.empty() && written) outputs.push_back(&memory);
  }
  return outputs;
}

std::vector<size_t> sizes_in_memory(const TensorDesc& desc) {
  std::vector<size_t> sizes;
  for (int i = 0; i < desc.shape.rank(); ++i) {
    sizes.push_back(static_cast<size_t>(desc.shape[i]));
  }
  if (sizes.size() == 4 && desc.layout == Layout::kNHWC) {
    std::rotate(sizes.begin() + 1, sizes.begin() + 2, sizes.end());
  }
  return sizes;
}

size_t count_of_values(const RecordedLayer& recorded, const ProgramData& data) {
  size_t count = 0;
  for (const std::vector<double>& places : data.zeroed) count += places.size();
  for (const NamedMemory* output : outputs_of(recorded)) {
    count += 1 + 2 * compared(sizes_in_memory(output->desc)).size();
  }
  return count;
}

std::vector<double> program_values(const RecordedLayer& recorded, const ProgramData& data) {
  const Layer& layer = *recorded.layer;
  std::vector<double> all;
  for (const std::vector<double>& places : data.zeroed) {
    all.insert(all.end(), places.begin(), places.end());
  }
  // A GPU that the recorder answers for computes nothing.
  const std::optional<Device> device =
      recorded.measured ? std::nullopt : std::optional(Device::kCpu);
  const Reference reference = run_reference(layer, data.data, {}, {recorded.pass}, nullptr, device);
  for (const NamedMemory* output : outputs_of(recorded)) {
    const auto& values = reference.of(recorded.pass);
    const auto is_it = [&](const NamedValues& one) { return one.name == output->output; };
    const NamedValues& whole = *std::find_if(values.begin(), values.end(), is_it);
    const Limit limit =
        limit_of(layer, recorded.pass, output->desc, whole.parameter, layer.options().math);
    const auto elements = compared(sizes_in_memory(output->desc));
    std::vector<double> expected, sizes, allowed;
    for (const size_t i : elements) {
      expected.push_back(whole.values[i]);
      if (!whole.sizes.empty()) sizes.push_back(whole.sizes[i]);
    }
    const ReferenceSums sums =
        reference_sums(expected.data(), sizes.empty() ? nullptr : sizes.data(),
                       static_cast<int64_t>(expected.size()));
    for (size_t k = 0; k < expected.size(); ++k) {
      allowed.push_back(
          allowed_error(expected[k], sizes.empty() ? sums.size_rms() : sizes[k], limit));
    }
    all.push_back(allowed_rms(sums, limit));
    all.insert(all.end(), expected.begin(), expected.end());
    all.insert(all.end(), allowed.begin(), allowed.end());
  }
  return all;
}

}  // namespace duet
