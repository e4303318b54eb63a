#include "compare/measure/layers_comparison.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>

#include "compare/measure/activations.h"
#include "compare/measure/in_network.h"
#include "compare/measure/running_graph.h"
#include "compare/results/layer_rows.h"
#include "compare/results/records.h"
#include "core/interrupt.h"
#include "core/storage.h"

namespace duet {

namespace {

/// One arm's part in a row.
struct ArmCall {
  Net::Node* node = nullptr;
  const Net::Node::Step* step = nullptr;
};

/// A copy of `layer` that stores bfloat16.
std::unique_ptr<Layer> in_bfloat16(const Layer& layer) {
  auto copy = layer.clone();
  std::vector<TensorDesc> inputs = layer.inputs();
  for (TensorDesc& input : inputs) {
    if (is_float(input.dtype)) input.dtype = DType::kBFloat16;
  }
  copy->bind(inputs, layer.options());
  return copy;
}

/// x and dy as `layer` stores them.
LayerData stored(LayerData data, const Layer& layer) {
  const auto store = [](const std::vector<TensorDesc>& descs, auto& tensors) {
    for (size_t i = 0; i < descs.size(); ++i) {
      for (double& value : tensors[i]) value = rounded_to(descs[i].dtype, value);
    }
  };
  store(layer.inputs(), data.x);
  store(layer.outputs(), data.dy);
  return data;
}

class LayersComparison {
 public:
  LayersComparison(RunningArms& arms, const StepTimes& steps, const Ceilings& ceilings,
                   const LayersPlan& plan)
      : arms_(arms), steps_(steps), ceilings_(ceilings), plan_(plan) {
    for (auto& arm : arms_) {
      any_in_bf16_ |= arm->setup().spec.math == Math::kBF16;
      if (arm->context().device() != Device::kGpu) continue;
      if (!gpu_) gpu_ = std::make_unique<Context>(Device::kGpu);
    }
    // In the place of PassPlan's own, which need not know the share.
    plan_.pass.before_round = [this, before = plan.pass.before_round] {
      if (before) before();
      plan_.row_part(share_);
    };
    for (Context* context : {&cpu_, gpu_.get()}) {
      if (context) context->set_workspace_limit(arms_[0]->context().workspace_limit());
    }
  }

  void run(LayersSection* section) {
    section->batch = arms_[0]->batch();
    section->math = to_string(arms_[0]->setup().spec.math);
    auto& rows = section->rows;
    for (size_t a = 0; a < arms_.size(); ++a) {
      for (const Net::Call& call : arms_[a]->training().net().calls()) add_row(a, call, &rows);
    }
    if (ended(kInNetwork) || ended(kActivations)) return;
    plan_.progress(0.95, kInNetwork);
    const InNetwork network = measure_in_network(arms_, plan_.network);
    network.add_to(&rows);
    for (const auto& faults : steps_.faults) section->step_faults.push_back(faults_of(faults));
    section->totals = network.totals(rows, steps_);
    section->step_ratios = ratios_of(steps_.pointers(steps_.training));
  }

 private:
  static constexpr const char* kInNetwork = "layers, each layer in the network";
  static constexpr const char* kActivations = "layers, the activations";

  /// Nobody knows by whom.
  bool ended(const std::string& work) const {
    return std::any_of(plan_.ended.begin(), plan_.ended.end(), [&](const EndedWork& each) {
      return each.work == work && (each.id.empty() || work == kInNetwork || work == kActivations);
    });
  }
  const EndedWork* ended_in(const std::string& layer, const std::string& id) const {
    for (const EndedWork& each : plan_.ended) {
      if (each.id == id && each.work.starts_with("layers, " + layer + " ")) return &each;
    }
    return nullptr;
  }

  /// The row of a call of arm `a`, unless an arm before it has made it.
  void add_row(size_t a, const Net::Call& call, std::vector<ComparedRow>* rows) {
    std::vector<ArmCall> arm_calls(arms_.size());
    for (size_t b = 0; b < arms_.size(); ++b) {
      arm_calls[b] = find(b, *call.node, call.step->pass);
      if (arm_calls[b].node && b < a) return;
    }
    InterruptGuard::check();
    const Layer& layer = *call.node->layer;
    const Pass pass = call.step->pass;
    const std::string work = "layers, " + call.node->name + " " + std::string(to_string(pass));
    const bool is_there = std::any_of(rows->begin(), rows->end(), [&](const ComparedRow& row) {
      return row.layer == call.node->name && row.type == layer.type() &&
             row.pass == to_string(pass) && row.problem == layer.problem_text();
    });
    if (is_there || ended(work)) return;
    share_ = std::min(0.95, work_before_ / work_of(*arms_[a]));
    if (!take_activations_of(a)) return;
    work_before_ += work_of(call);
    plan_.progress(share_, work);
    spdlog::info("measuring {} {}", call.node->name, to_string(call.step->pass));

    std::vector<PassMeasurement> measured(arms_.size());
    for (const Device device : {Device::kGpu, Device::kCpu})
      measure(arm_calls, a, device, &measured);

    for (size_t b = 0; b < arms_.size(); ++b) {
      if (arm_calls[b].node) add_faults(b, arm_calls[b], &measured[b]);
    }
    std::vector<RowArm> row_arms;
    for (size_t b = 0; b < arms_.size(); ++b) {
      if (!arm_calls[b].node) {
        row_arms.push_back({});
        continue;
      }
      row_arms.push_back({.layer = arm_calls[b].node->layer.get(),
                          .id = arm_calls[b].step->id,
                          .shared = arm_calls[b].step->shared,
                          .measurement = &measured[b]});
    }
    ComparedRow row = {
        measured_row({.name = call.node->name,
                      .layer = &layer,
                      .pass = call.step->pass,
                      .floor_seconds = floor_seconds(ceilings_, layer, call.step->pass),
                      .repeat = repeat_command(layer, call.step->pass)},
                     row_arms),
        error_ratio(row_arms)};
    for (size_t x = 0; x < arms_.size(); ++x) {
      for (size_t y = x + 1; y < arms_.size(); ++y) add_ratio(row_arms, x, y, &row.ratios);
    }
    rows->push_back(std::move(row));
  }

  /// What a row takes beside the others, roughly: half of the time goes by rows, half by how long
  /// their passes take at least.
  double work_of(const Net::Call& call) const {
    const Net& net = arms_[0]->training().net();
    double floors = 0;
    for (const Net::Call& each : net.calls()) floors += floor_of(each);
    const auto rows = static_cast<double>(std::max<size_t>(1, net.calls().size()));
    return 0.5 / rows + (floors > 0 ? 0.5 * floor_of(call) / floors : 0.5 / rows);
  }
  double work_of(RunningArm& arm) const {
    double work = 0;
    for (const Net::Call& call : arm.training().net().calls()) work += work_of(call);
    return work > 0 ? work : 1;
  }
  double floor_of(const Net::Call& call) const {
    return floor_seconds(ceilings_, *call.node->layer, call.step->pass).value_or(0);
  }

  /// Those of the layer in the network, and of times that cannot be.
  void add_faults(size_t arm, const ArmCall& arm_call, PassMeasurement* measured) {
    const Pass pass = arm_call.step->pass;
    const Device device = arms_[arm]->context().device();
    refuse_impossible_times(*measured,
                            least_seconds(ceilings_, device, *arm_call.node->layer, pass));
    for (const NetworkFault& found : steps_.faults[arm]) {
      if (found.layer != arm_call.node->name || found.pass != to_string(pass)) continue;
      measured->examination.faults.push_back(found.fault);
      measured->warm.reset();
      measured->cold.reset();
    }
  }

  /// Measures the arms of one device, side by side; those of the same code once for all.
  void measure(const std::vector<ArmCall>& arm_calls, size_t source, Device device,
               std::vector<PassMeasurement>* measured) {
    std::vector<Candidate> candidates;
    std::vector<std::pair<size_t, size_t>> places;  // arm, candidate
    for (size_t b = 0; b < arm_calls.size(); ++b) {
      if (!arm_calls[b].node || arms_[b]->context().device() != device) continue;
      if (const EndedWork* end = ended_in(arm_calls[b].node->name, arm_calls[b].step->id)) {
        (*measured)[b].examination.faults = {{FaultKind::kFailed, end->text}};
        continue;
      }
      const Candidate own = {arm_calls[b].node->layer.get(), arm_calls[b].step->id};
      const auto same = std::find_if(candidates.begin(), candidates.end(), [&](const auto& other) {
        return own.id == other.id && task_text(*own.layer) == task_text(*other.layer);
      });
      places.emplace_back(b, same - candidates.begin());
      if (same == candidates.end()) candidates.push_back(own);
    }
    if (candidates.empty()) return;
    const ArmCall& from = arm_calls[source];
    const CheckData& check_data = check_data_of(source, *from.node);
    const Layer& layer = *from.node->layer;
    CheckData turned;
    const bool own = same_layouts(*candidates[0].layer, layer);
    if (!own) turned = relayout(check_data, layer, *candidates[0].layer);
    auto results = measure_pass(candidates, from.step->pass, own ? check_data : turned,
                                device == Device::kGpu ? *gpu_ : cpu_, plan_.pass);
    for (const auto& [arm, candidate] : places) (*measured)[arm] = results[candidate];
  }

  /// What the reference makes of a node's activations; kept, because its backward passes come last.
  /// The activations are values that every arm stores exactly.
  const CheckData& check_data_of(size_t arm, const Net::Node& node) {
    auto& slot = check_data_[&node];
    if (!slot) {
      std::vector<Pass> passes;
      for (const auto& step : node.steps) passes.push_back(step.pass);
      LayerData data = std::move(activations_.at(arm).at(node.name));
      data.step = static_cast<uint64_t>(plan_.steps);
      const auto narrow = any_in_bf16_ ? in_bfloat16(*node.layer) : nullptr;
      const Layer& layer = narrow ? *narrow : *node.layer;
      slot = std::make_unique<CheckData>(
          make_check_data(layer, stored(std::move(data), layer), {}, passes, plan_.stop));
    }
    return *slot;
  }

  /// Trains the arm a little and takes what feeds its layers, once. False if another process ended
  /// in it, whoever it was: no row then knows its data.
  bool take_activations_of(size_t arm) {
    if (activations_.contains(arm)) return true;
    if (ended(kActivations)) return false;
    plan_.progress(share_, kActivations);
    Training& training = arms_[arm]->training();
    for (int64_t i = 0; i < plan_.steps; ++i) {
      const auto graph = running_graph(*arms_[arm], "a training step");
      run_interruptibly([&] { training.step(); });
    }
    training.context().synchronize();  // what goes wrong here is none of what follows
    run_interruptibly([&] { activations_[arm] = take_activations(training); });
    return true;
  }

  ArmCall find(size_t arm, const Net::Node& like, Pass pass) {
    for (Net::Node& node : arms_[arm]->training().net().nodes()) {
      const bool same = node.name == like.name && node.layer->type() == like.layer->type() &&
                        node.layer->inputs()[0].shape == like.layer->inputs()[0].shape &&
                        node.layer->outputs()[0].shape == like.layer->outputs()[0].shape;
      if (!same) continue;
      for (const auto& step : node.steps) {
        if (step.pass == pass) return {&node, &step};
      }
    }
    return {};
  }

  /// error(a) <= 2 * error(b) + a rounding, for a hand-written arm beside a library's.
  static std::optional<ErrorRatio> error_ratio(const std::vector<RowArm>& arms) {
    const auto find_family = [&](Family family) -> std::optional<size_t> {
      for (size_t i = 0; i < arms.size(); ++i) {
        if (arms[i].layer && family_of(arms[i].id) == family) return i;
      }
      return {};
    };
    const auto a = find_family(Family::kCustom), b = find_family(Family::kCudnn);
    if (!a || !b) return {};
    const auto error = [&](size_t i) {
      double worst = 0;
      for (const TensorResult& t : arms[i].measurement->examination.tensors) {
        worst = std::max(worst, t.agreement.rms_relative);
      }
      return worst;
    };
    constexpr double kRounding = 0x1p-24;
    return ErrorRatio{.a = {*a},
                      .b = {*b},
                      .value = error(*b) > 0 ? error(*a) / error(*b) : kUnknown,
                      .ok = error(*a) <= 2 * error(*b) + kRounding};
  }

  RunningArms& arms_;
  const StepTimes& steps_;
  const Ceilings ceilings_;
  LayersPlan plan_;
  bool any_in_bf16_ = false;
  double work_before_ = 0, share_ = 0;  // of the rows so far
  Context cpu_{Device::kCpu};
  std::unique_ptr<Context> gpu_;
  std::map<size_t, Activations> activations_;  // by arm
  std::map<const Net::Node*, std::unique_ptr<CheckData>> check_data_;
};

}  // namespace

void compare_layers(RunningArms& arms, const StepTimes& steps, const Ceilings& ceilings,
                    const LayersPlan& plan, LayersSection* section) {
  LayersComparison(arms, steps, ceilings, plan).run(section);
}

}  // namespace duet
