#include "train/evaluation.h"

#include <algorithm>
#include <limits>

#include "device/range.h"
#include "train/advance.h"

namespace duet {

Metrics metrics_of(const StepState& state) {
  if (state.halted) {
    return {std::numeric_limits<double>::quiet_NaN(), 0.0, state.counted};
  }
  const double rows = static_cast<double>(std::max<int64_t>(state.counted, 1));
  return {state.loss_sum / rows, static_cast<double>(state.hits) / rows, state.counted};
}

Evaluation::Evaluation(Net& net, const DatasetInfo& info, const Split& split)
    : net_(net),
      context_(net.context()),
      batches_(context_, info, split, {.batch = net.input().desc.shape[0]}),
      state_(context_.device(), sizeof(StepState)) {
  restart();
  const uint64_t* number = &device_state()->step;
  program_.push_back(gather_operation(
      [this, number] { batches_.gather(context_, number, net_.input(), net_.labels()); }));
  for (const Net::Call& call : net_.calls()) {
    if (call.step->pass != Pass::kForward) continue;
    program_.push_back(
        layer_operation(call, [this, &call, number] { net_.run(call, number, false); }));
  }
  program_.push_back(advance_operation([this] {
    advance(context_, device_state(), net_.loss().data<float>(), net_.hits().data<int32_t>(), {});
  }));
}

void Evaluation::capture() {
  restart();
  queue(program_);
  context_.synchronize();
  graph_ = StepGraph(context_, [this] {
    const Range range("capture evaluation");
    queue(program_);
  });
}

Metrics Evaluation::run() {
  const Range range("evaluation");
  restart();
  for (int64_t i = 0; i < batches_.per_epoch(); ++i) step();
  return metrics_of(state());
}

void Evaluation::step() {
  if (graph_) {
    graph_.launch();
  } else {
    queue(program_);
  }
}

void Evaluation::restart() {
  const StepState zero;
  copy_bytes(state_.data(), context_.device(), &zero, Device::kCpu, sizeof zero);
}

StepState Evaluation::state() {
  StepState state;
  copy_bytes(&state, Device::kCpu, state_.data(), context_.device(), sizeof state);
  return state;
}

}  // namespace duet
