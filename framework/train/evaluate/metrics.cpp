#include "train/evaluate/metrics.h"

#include <spdlog/fmt/fmt.h>

#include <cmath>

namespace duet {

double ClassMetrics::precision() const {
  return static_cast<double>(right) / static_cast<double>(predicted);
}

double ClassMetrics::recall() const {
  return static_cast<double>(right) / static_cast<double>(rows);
}

Metrics::Values Metrics::values(const std::string& prefix) const {
  Values all = {{prefix + "loss", loss}};
  if (!std::isnan(accuracy)) all.push_back({prefix + "accuracy", accuracy, true});
  if (!std::isnan(top5)) all.push_back({prefix + "top5", top5, true});
  for (const Value& part : parts) all.push_back({prefix + part.name, part.value, part.is_share});
  return all;
}

namespace {

std::string value_text(double value, bool is_share) {
  return is_share ? fmt::format("{:.2f}%", 100.0 * value) : fmt::format("{:.4f}", value);
}

}  // namespace

std::string values_text(const Metrics& metrics, const std::string& separator) {
  std::string text;
  for (const Metrics::Value& each : metrics.values()) {
    text +=
        (text.empty() ? "" : separator) + each.name + " " + value_text(each.value, each.is_share);
  }
  return text;
}

std::string MetricInfo::text(double value) const {
  return name + " " + value_text(value, is_share);
}

std::vector<MetricInfo> metrics_of(const std::vector<ResolvedLayer>& layers) {
  std::vector<MetricInfo> metrics = {{"loss"}}, parts, measured;
  int losses = 0;
  bool labels = false, top5 = false;
  for (const ResolvedLayer& layer : layers) {
    if (layer.layer->is_metric()) {
      measured.push_back({layer.name, layer.layer->larger_is_better()});
    }
    if (!layer.layer->is_loss()) continue;
    ++losses;
    parts.push_back({layer.name});
    labels = layer.layer->takes_labels();
    if (!labels) continue;
    parts.push_back({layer.name + "_accuracy", true, true});
    top5 = layer.layer->inputs()[0].shape.last() > 5;
  }
  if (labels) metrics.push_back({"accuracy", true, true});
  if (losses > 1) metrics.insert(metrics.end(), parts.begin(), parts.end());
  metrics.insert(metrics.end(), measured.begin(), measured.end());
  std::vector<MetricInfo> all;
  for (const char* prefix : {"val_", "train_"}) {
    for (MetricInfo metric : metrics) {
      metric.name = prefix + metric.name;
      all.push_back(std::move(metric));
    }
    if (labels && top5 && all.front().name.starts_with(prefix))
      all.push_back({"val_top5", true, true});
  }
  return all;
}

const MetricInfo* find_metric(const std::vector<MetricInfo>& metrics, const std::string& name) {
  for (const MetricInfo& metric : metrics) {
    if (metric.name == name) return &metric;
  }
  return nullptr;
}

}  // namespace duet
