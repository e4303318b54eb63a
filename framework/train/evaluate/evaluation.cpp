#include "train/evaluate/evaluation.h"

#include <algorithm>

#include "device/range.h"

namespace duet {

namespace {

// Classes are counted if the last loss reads labels.
size_t counts_bytes(const Net& net) {
  if (!net.losses().back().node->layer->takes_labels()) return 0;
  return static_cast<size_t>(ClassCounts{net.output().desc.shape.last()}.size()) * sizeof(uint64_t);
}

}  // namespace

Evaluation::Evaluation(Net& net, const DatasetInfo& info, const Split& split)
    : net_(net),
      context_(net.context()),
      batches_(context_, info, split, {.batch = net.input().desc.shape[0], .stream = info.stream}),
      state_(context_.device(), sizeof(StepState)),
      counts_(context_.device(), counts_bytes(net)),
      totals_(net) {
  restart();
  const uint64_t* number = &device_state()->step;
  const auto gather = [this, number](bool step_rests) {
    return gather_operation(
        [=, this] { batches_.gather(context_, number, net_.fields(), step_rests); });
  };
  program_.push_back(gather(false));
  inference_.push_back(gather(true));
  const std::vector<bool> leads = leading_to(net_.nodes(), net_.plan().result_reader);
  for (const Net::Call& call : net_.calls()) {
    if (call.step->pass != Pass::kForward) continue;
    program_.push_back(
        layer_operation(call, [this, &call, number] { net_.run(call, number, false); }));
    if (leads[static_cast<size_t>(call.node - net_.nodes().data())]) {
      inference_.push_back(program_.back());
    }
  }
  program_.push_back(advance_operation([this] {
    totals_.queue();
    if (!counts_.data()) return advance(context_, device_state(), totals_.end());
    const Net::Node& loss = *net_.losses().back().node;
    count_classes(context_, {outputs(), loss.tensors.x[1], loss.layer->ignored_class()},
                  static_cast<uint64_t*>(counts_.data()), device_state(), totals_.end());
  }));
}

void Evaluation::capture(int64_t steps) {
  restart();
  net_.prepare_weights();  // or the graph would, in every batch
  batches_.stage(0);
  queue(program_);
  context_.synchronize();
  steps_ = batches_.is_streamed() ? 1 : steps;  // the host stages each batch of a stream
  graphs_ = captured(program_);
}

StepGraphs Evaluation::captured(const Program& operations) {
  return {steps_, [&](int64_t count) {
            return StepGraph::with_early_secondaries(context_, [&] {
              const Range range("capture evaluation");
              for (int64_t i = 0; i < count; ++i) queue(operations);
            });
          }};
}

Metrics Evaluation::run() {
  const Range range("evaluation");
  restart();
  step(batches_.per_epoch());
  Metrics metrics = this->metrics();
  if (!counts_.data()) return metrics;
  const ClassCounts at{outputs().desc.shape.last()};
  std::vector<uint64_t> counts(static_cast<size_t>(at.size()));
  copy_bytes(counts.data(), Device::kCpu, counts_.data(), context_.device(), counts_.bytes());
  const auto count = [&](int64_t i) {
    return static_cast<int64_t>(counts[static_cast<size_t>(i)]);
  };
  for (int64_t c = 0; c < at.classes; ++c) {
    metrics.classes.push_back({count(at.labelled(c)), count(at.predicted(c)), count(at.right(c))});
  }
  if (at.pairs() > 0) {
    const auto first = counts.begin() + at.pair(0, 0);
    metrics.confusion.assign(first, first + at.pairs());
  }
  metrics.top5 = at.classes > 5 ? static_cast<double>(count(at.in_top5())) /
                                      static_cast<double>(std::max<int64_t>(metrics.rows, 1))
                                : Metrics::kNone;
  return metrics;
}

void Evaluation::step(int64_t count) {
  while (count > 0) count -= step_some(count);
}

int64_t Evaluation::step_some(int64_t most) {
  const int64_t count = graphs_.fitting(most);
  batches_.stage(next_);
  next_ += static_cast<uint64_t>(count);
  if (graphs_) {
    net_.prepare_weights();
    graphs_.launch(count);
  } else {
    queue(program_);
  }
  return count;
}

int64_t Evaluation::infer_some(int64_t most) {
  batches_.stage(next_);
  if (!graphs_) {
    queue(inference_);
    return 1;
  }
  net_.prepare_weights();
  if (!inference_graphs_) inference_graphs_ = captured(inference_);
  const int64_t count = inference_graphs_.fitting(most);
  inference_graphs_.launch(count);
  return count;
}

void Evaluation::restart() {
  next_ = 0;
  const StepState zero;
  copy_bytes(state_.data(), context_.device(), &zero, Device::kCpu, sizeof zero);
  fill_bytes(counts_.data(), context_.device(), 0, counts_.bytes());
}

StepState Evaluation::state() {
  StepState state;
  copy_bytes(&state, Device::kCpu, state_.data(), context_.device(), sizeof state);
  return state;
}

}  // namespace duet
