#include "compare/measure/in_network.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "compare/measure/running_graph.h"
#include "compare/results/records.h"
#include "core/interrupt.h"
#include "device/step_graph.h"

namespace duet {

namespace {

constexpr int kRepetitions = 20;  // of one operation in a graph

/// A piece of a step that can be timed: on a GPU, replayed from a graph.
class Piece {
 public:
  Piece(Context& context, const std::function<void()>& queue, int repetitions) : context_(context) {
    context.synchronize();
    graph_ = StepGraph(context, [&] {
      for (int i = 0; i < repetitions; ++i) queue();
    });
  }
  Workload workload() {
    return Workload::of(context_, [this] { graph_.launch(); });
  }

 private:
  Context& context_;
  StepGraph graph_;
};

double median_us(std::vector<double> seconds) { return 1e6 * quantile(std::move(seconds), 0.5); }

bool is_layer(const Operation& operation) { return operation.kind == Operation::Kind::kLayer; }

/// The median over rounds of later - earlier.
double added_us(const Times& later, const Times* earlier) {
  std::vector<double> seconds = later.seconds;
  if (earlier) {
    for (size_t i = 0; i < seconds.size(); ++i) seconds[i] -= earlier->seconds[i];
  }
  return median_us(std::move(seconds));
}

InNetwork::Part part_of(const Operation& operation, double in_network_us,
                        std::vector<double> alone) {
  return {.layer = operation.layer,
          .pass = operation.pass,
          .implementation = operation.implementation,
          .in_network_us = in_network_us,
          .alone = is_layer(operation) ? std::vector<double>() : std::move(alone)};
}

// Graphs of the first k operations for every k, so that nothing comes between the kernels; and of
// what is no layer by itself.
std::vector<InNetwork::Part> parts_on_gpu(RunningArm& arm, TimingPlan plan) {
  plan.most_rounds = plan.rounds;  // these are shares of one arm's step, not compared
  const Program& operations = arm.training().program();
  std::vector<std::unique_ptr<Piece>> pieces;
  for (size_t k = 1; k <= operations.size(); ++k) {
    const auto queue = [&operations, k] {
      for (size_t i = 0; i < k; ++i) operations[i].queue();
    };
    pieces.push_back(std::make_unique<Piece>(arm.context(), queue, 1));
  }
  std::vector<size_t> alone(operations.size());  // which piece is of what is no layer
  for (size_t k = 0; k < operations.size(); ++k) {
    if (is_layer(operations[k])) continue;  // its tensors are others' outside of its place
    alone[k] = pieces.size();
    pieces.push_back(std::make_unique<Piece>(arm.context(), operations[k].queue, kRepetitions));
  }
  std::vector<Workload> workloads;
  for (const auto& piece : pieces) {
    Workload& workload = workloads.emplace_back(piece->workload());
    workload.seconds = [&arm, seconds = std::move(workload.seconds)](int64_t calls) {
      const auto graph = running_graph(arm, "operations of a training step");
      return seconds(calls);
    };
  }
  const auto times = time_interleaved(workloads, plan);
  std::vector<InNetwork::Part> parts;
  for (size_t k = 0; k < operations.size(); ++k) {
    std::vector<double> by_itself;
    if (alone[k]) by_itself = times[alone[k]].seconds;
    for (double& seconds : by_itself) seconds /= kRepetitions;
    parts.push_back(part_of(operations[k], added_us(times[k], k ? &times[k - 1] : nullptr),
                            std::move(by_itself)));
  }
  return parts;
}

// Whole steps, with a look at the clock after each operation.
std::vector<InNetwork::Part> parts_on_cpu(RunningArm& arm, const TimingPlan& plan) {
  const Program& operations = arm.training().program();
  std::vector<std::vector<double>> seconds(operations.size());
  for (int round = 0; round < plan.rounds; ++round) {
    for (size_t k = 0; k < operations.size(); ++k) {
      seconds[k].push_back(seconds_of(arm.context(), operations[k].queue, 1));
    }
  }
  std::vector<InNetwork::Part> parts;
  for (size_t k = 0; k < operations.size(); ++k) {
    parts.push_back(part_of(operations[k], median_us(seconds[k]), seconds[k]));
  }
  return parts;
}

}  // namespace

InNetwork measure_in_network(RunningArms& arms, const TimingPlan& plan) {
  InNetwork result;
  for (auto& arm : arms) {
    // What runs for the first time must not do so while it is captured.
    const auto graph = running_graph(*arm, "a training step");
    run_interruptibly([&] { arm->training().step(); });
    arm->context().synchronize();
    result.memory_bytes.push_back(arm->training().net().memory_bytes());
  }
  for (auto& arm : arms) {
    result.parts.push_back(arm->context().device() == Device::kGpu ? parts_on_gpu(*arm, plan)
                                                                   : parts_on_cpu(*arm, plan));
  }
  return result;
}

void InNetwork::add_to(std::vector<ComparedRow>* rows) const {
  const auto layers = static_cast<ptrdiff_t>(rows->size());
  for (size_t arm = 0; arm < parts.size(); ++arm) {
    for (const Part& part : parts[arm]) {
      const auto is_of_part = [&](const ComparedRow& row) {
        return row.layer == part.layer && row.pass == part.pass;
      };
      if (part.alone.empty()) {
        for (ComparedRow& row : *rows) {
          if (row.arm(arm) && is_of_part(row)) row.arms[arm]->in_network_us = part.in_network_us;
        }
        continue;
      }
      auto row = std::find_if(rows->begin() + layers, rows->end(), is_of_part);
      if (row == rows->end()) {
        row = rows->insert(row, ComparedRow{});
        row->layer = part.layer;
        row->pass = part.pass;
        row->arms.resize(parts.size());
      }
      row->arms[arm] = MeasuredArm{.implementation = part.implementation,
                                   .in_network_us = part.in_network_us,
                                   .us = timing_of(summarise(part.alone))};
    }
  }
}

std::vector<ArmTotal> InNetwork::totals(const std::vector<ComparedRow>& rows,
                                        const StepTimes& steps) const {
  std::vector<ArmTotal> totals;
  for (size_t arm = 0; arm < parts.size(); ++arm) {
    ArmTotal& total = totals.emplace_back();
    total = {.arm = {arm}, .sum_us = 0, .in_network_sum_us = 0};
    for (const Part& part : parts[arm]) total.in_network_sum_us += part.in_network_us;
    for (const ComparedRow& row : rows) {
      if (row.arm(arm)) total.sum_us += row.arm(arm)->us.median;  // NaN without a time
    }
    if (steps.has(arm)) total.step_us = timing_of(steps.training[arm].summary());
    total.gap_us = total.step_us.median - total.sum_us;
    total.prepare_s = steps.prepare_seconds[arm];
    total.memory_bytes = memory_bytes[arm];
  }
  return totals;
}

}  // namespace duet
