#include "train/step/step_totals.h"

namespace duet {

StepTotals::StepTotals(Net& net) : net_(net) {
  for (const Net::Loss& loss : net.losses()) weights_.emplace_back(net.context(), *loss.node);
}

void StepTotals::queue() {
  for (LossWeight& weight : weights_) weight.queue();
}

StepEnd StepTotals::end(const ScheduleRule& schedule) const {
  StepEnd end{.loss = net_.objective().data<float>(), .schedule = schedule};
  for (size_t i = 0; i < weights_.size(); ++i) {
    const Net::Loss& loss = net_.losses()[i];
    const auto* hits = loss.hits().data<int32_t>();
    end.add({.mean = loss.value().data<float>(), .hits = hits, .weight = weights_[i].get()});
    if (loss.node->layer->takes_labels()) end.add({.hits = hits});
  }
  for (const Net::Node* metric : net_.metrics()) {
    end.add({.sums = metric->tensors.y[0].data<float>()});
  }
  return end;
}

Metrics StepTotals::metrics(const StepState& state) const {
  Metrics metrics;
  const Total* total = state.totals;
  for (const Net::Loss& loss : net_.losses()) {
    const double mean = total->mean();
    metrics.loss += static_cast<double>(loss.weight) * mean;
    metrics.parts.push_back({loss.node->name, mean});
    metrics.accuracy = Metrics::kNone;
    if (loss.node->layer->takes_labels()) {
      ++total;
      metrics.accuracy = total->mean();
      metrics.parts.push_back({loss.node->name + "_accuracy", metrics.accuracy, true});
    }
    metrics.rows = static_cast<int64_t>(total->weight);
    ++total;
  }
  if (net_.losses().size() == 1) metrics.parts.clear();
  for (const Net::Node* metric : net_.metrics()) {
    metrics.parts.push_back({metric->name, total->mean()});
    ++total;
  }
  if (state.halted) metrics.loss = Metrics::kNone;
  return metrics;
}

size_t StepTotals::memory_bytes() const {
  size_t bytes = 0;
  for (const LossWeight& weight : weights_) bytes += weight.memory_bytes();
  return bytes;
}

}  // namespace duet
