#include "train/goal.h"

#include <nlohmann/json.hpp>

namespace duet {

using nlohmann::json;

bool Goal::watch(const json& epoch) {
  const auto number = [&](const char* key) {
    const auto found = epoch.find(key);
    return found != epoch.end() && found->is_number() ? found->get<double>() : 0.0;
  };
  done_ += number("seconds") + number("evaluation_seconds");
  if (val_accuracy_ == 0.0 || epoch_ > 0 || number("val_accuracy") < val_accuracy_) return false;
  epoch_ = static_cast<int64_t>(number("epoch"));
  seconds_ = done_;
  return true;
}

json Goal::to_json() const {
  if (val_accuracy_ == 0.0) return {};
  json object = {{"val_accuracy", val_accuracy_}, {"epoch", nullptr}, {"seconds", nullptr}};
  if (epoch_ > 0) {
    object["epoch"] = epoch_;
    object["seconds"] = seconds_;
  }
  return object;
}

}  // namespace duet
