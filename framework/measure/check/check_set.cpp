#include "measure/check/check_set.h"

#include <algorithm>

#include "core/error.h"
#include "core/interrupt.h"
#include "core/storage.h"

namespace duet {
namespace {

constexpr uint64_t kOtherSeed = 99;

/// `values` in memory of `device`; they lie in `memory` if they had to be copied there.
const double* placed(const std::vector<double>& values, Device device, Buffer* memory) {
  if (values.empty()) return nullptr;
  if (device == Device::kCpu) return values.data();
  *memory = stored({{static_cast<int64_t>(values.size())}, DType::kFloat64}, values, device);
  return static_cast<const double*>(memory->data());
}

std::vector<Pass> start_through(LayerRig& rig, const CheckSet& set) {
  auto passes = passes_through(rig.layer(), rig.id(), set.pass());
  if (passes.front() != Pass::kForward) rig.set_y(set.y());
  return passes;
}

std::vector<NamedValues> as_stored(const Layer& layer, std::vector<NamedValues> outputs) {
  for (NamedValues& output : outputs) {
    const DType dtype = desc_of(layer, output.name).dtype;
    for (double& value : output.values) value = rounded_to(dtype, value);
  }
  return outputs;
}

/// What the reference makes of `data`, settled first.
Reference settled_reference(const Layer& layer, LayerData& data, const LayerSituation& situation,
                            const std::vector<Pass>& passes, bool (*stop)()) {
  {
    const LoopStop unfinished_loops(stop);
    layer.settle(data.x, data.w, data.dy);
    if (stop && stop()) throw InterruptedError();
  }
  return run_reference(layer, data, situation, passes, stop);
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

std::vector<Pass> passes_through(const Layer& layer, std::string_view id, Pass pass) {
  std::vector<Pass> passes = passes_before(layer, pass);
  std::erase_if(passes, [&](Pass before) { return layer.unsupported(id, before).has_value(); });
  passes.push_back(pass);
  return passes;
}

void run_through(LayerRig& rig, const CheckSet& set, const std::vector<size_t>& without_dx,
                 const std::function<void()>& after_each) {
  for (Pass each : start_through(rig, set)) {
    run_interruptibly(
        [&] { rig.run(each, each == Pass::kForward ? std::vector<size_t>() : without_dx); });
    after_each();
  }
}

void queue_through(LayerRig& rig, const CheckSet& set) {
  for (Pass each : start_through(rig, set)) rig.queue(each);
}

std::vector<TensorResult> hold_to(const CheckSet& set, LayerRig& rig) {
  InterruptGuard::check();  // comparing large tensors takes a while, too
  std::vector<TensorResult> results;
  const Layer& layer = rig.layer();
  const auto found = rig.written_by(set.pass());
  for (size_t i = 0; i < found.size(); ++i) {
    const NamedValues& output = set.outputs().at(i);
    const Limit limit = set.exact() ? Limit::exact()
                                    : limit_of(layer, set.pass(), found[i].desc, output.parameter,
                                               layer.options().math);
    const ExpectedValues& expected = set.expected(i);
    const ComparisonSums sums = comparison_sums(expected, found[i], limit, rig.context());
    results.push_back(
        {output.name, found[i].desc, agreement_of(sums, expected.sums, limit), limit});
  }
  return results;
}

TensorResult hold_to(const NamedValues& expected, const NamedValues& found, const Layer& layer,
                     Pass pass) {
  const Limit limit = limit_of(layer, pass, found.desc, found.parameter, layer.options().math);
  return {found.name, found.desc, compare(expected.values, found.values, limit, expected.sizes),
          limit};
}

bool all_agree(const std::vector<TensorResult>& tensors) {
  return std::all_of(tensors.begin(), tensors.end(),
                     [](const TensorResult& tensor) { return tensor.agreement.agrees; });
}

CheckData make_first_check_data(const Layer& layer, LayerData data, const LayerSituation& situation,
                                const std::vector<Pass>& passes, bool (*stop)()) {
  CheckData check_data{.situation = situation, .data = std::move(data)};
  check_data.expected = settled_reference(layer, check_data.data, situation, passes, stop);
  return check_data;
}

CheckData make_check_data(const Layer& layer, LayerData data, const LayerSituation& situation,
                          const std::vector<Pass>& passes, bool (*stop)()) {
  CheckData check_data = make_first_check_data(layer, std::move(data), situation, passes, stop);
  check_data.other_data = random_data(layer, kOtherSeed);
  check_data.other_data.step = check_data.data.step + 1;
  check_data.other_expected =
      settled_reference(layer, check_data.other_data, situation, passes, stop);
  return check_data;
}

CheckData make_own_check_data(const Layer& layer, std::string_view id, Pass pass,
                              const CheckData& check_data, Context& context) {
  CheckData own{.situation = check_data.situation, .data = check_data.data};
  auto& outputs = own.expected.outputs;
  const auto passes = passes_through(layer, id, pass);
  LayerRig rig(layer, id, passes, context, own.situation);
  rig.load(own.data);
  if (passes.front() != Pass::kForward) {  // any numbers will do
    auto& y = outputs.emplace_back(Pass::kForward, std::vector<NamedValues>()).second;
    std::vector<Buffer> buffers;
    for (size_t i = 0; i < layer.outputs().size(); ++i) {
      const TensorDesc& desc = layer.outputs()[i];
      y.push_back({.name = "y[" + std::to_string(i) + "]", .desc = desc, .values = own.data.dy[i]});
      y.back().values.resize(static_cast<size_t>(desc.elements()));
      buffers.push_back(stored(desc, y.back().values, context.device()));
    }
    rig.set_y(buffers);
  }
  for (Pass each : passes) {
    run_interruptibly([&] { rig.run(each); });
    outputs.emplace_back(each, rig.outputs(each));
  }
  return own;
}

CheckData relayout(const CheckData& check_data, const Layer& from, const Layer& to) {
  CheckData result{.situation = check_data.situation,
                   .data = relayout(check_data.data, from, to),
                   .other_data = relayout(check_data.other_data, from, to)};
  const auto turn = [&](Reference reference) {
    for (auto& [pass, outputs] : reference.outputs) {
      for (NamedValues& output : outputs) {
        TensorDesc desc = output.desc;
        desc.layout = desc_of(to, output.name).layout;
        output.values = relayout(output.values, output.desc, desc);
        if (!output.sizes.empty()) output.sizes = relayout(output.sizes, output.desc, desc);
        output.desc = desc;
      }
    }
    return reference;
  };
  result.expected = turn(check_data.expected);
  result.other_expected = turn(check_data.other_expected);
  return result;
}

}  // namespace duet
