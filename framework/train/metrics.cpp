#include "train/metrics.h"

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
  if (!std::isnan(accuracy)) all.emplace_back(prefix + "accuracy", accuracy);
  if (!std::isnan(top5)) all.emplace_back(prefix + "top5", top5);
  for (const auto& [name, value] : parts) all.emplace_back(prefix + name, value);
  return all;
}

std::vector<std::string> metric_names(const std::vector<ResolvedLayer>& layers) {
  std::vector<std::string> names = {"loss"}, parts;
  int losses = 0;
  bool labels = false, top5 = false;
  for (const ResolvedLayer& layer : layers) {
    if (!layer.layer->is_loss()) continue;
    ++losses;
    parts.push_back(layer.name);
    if (!layer.layer->takes_labels()) continue;
    parts.push_back(layer.name + "_accuracy");
    labels = true;
    top5 = layer.layer->inputs()[0].shape[1] > 5;
  }
  if (labels) names.push_back("accuracy");
  if (losses > 1) names.insert(names.end(), parts.begin(), parts.end());
  std::vector<std::string> all;
  for (const std::string& name : names) all.push_back("val_" + name);
  if (top5) all.push_back("val_top5");
  for (const std::string& name : names) all.push_back("train_" + name);
  return all;
}

bool larger_is_better(const std::string& name) {
  return name.ends_with("accuracy") || name.ends_with("top5");
}

}  // namespace duet
