#include "train/run/training_events.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "train/evaluate/filters.h"

namespace duet {

void TrainingEvents::step(const StepState& state) {
  file_.scalars(static_cast<int64_t>(state.step),
                {{"loss/step", state.last_loss}, {"learning_rate", state.last_learning_rate}});
}

void TrainingEvents::epoch(const nlohmann::json& metrics, Training& training) {
  const auto step = static_cast<int64_t>(training.state().step);
  constexpr std::pair<const char*, const char*> kTags[] = {
      {"train_loss", "loss/train"},
      {"val_loss", "loss/validation"},
      {"train_accuracy", "accuracy/train"},
      {"val_accuracy", "accuracy/validation"},
      {"val_top5", "accuracy/top5"},
      {"learning_rate", "learning_rate"},
      {"images_per_second", "images_per_second"}};
  std::vector<std::pair<std::string, double>> values;
  for (const auto& [key, tag] : kTags) {
    if (metrics.contains(key)) values.emplace_back(tag, metrics[key].get<double>());
  }
  // Of several losses: "train_aux" as "aux/train".
  const auto is_told = [&](const std::string& key) {
    return std::any_of(std::begin(kTags), std::end(kTags),
                       [&](const auto& tag) { return key == tag.first; });
  };
  for (const auto& [prefix, end] :
       {std::pair("train_", "/train"), std::pair("val_", "/validation")}) {
    for (const auto& [key, value] : metrics.items()) {
      if (!key.starts_with(prefix) || is_told(key)) continue;
      values.emplace_back(key.substr(std::string_view(prefix).size()) + end, value.get<double>());
    }
  }
  file_.scalars(step, values);
  bool filters = false;
  const Weights& weights = training.weights();
  for (const Parameter& parameter : weights.parameters()) {
    if (!parameter.spec.trained()) continue;
    const std::vector<float> read = weights.read(parameter, training.result());
    file_.histogram(step, "weights/" + parameter.name, read);
    const Shape& shape = parameter.spec.desc.shape;
    if (filters || shape.rank() != 4) continue;
    filters = true;
    file_.image(step, "filters/" + parameter.name,
                filter_picture(read, {shape[0], shape[1], shape[2], shape[3]}));
  }
}

}  // namespace duet
