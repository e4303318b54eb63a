#include "train/run/goal.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace duet {

using nlohmann::json;

bool Goal::watch(const json& epoch) {
  const auto number = [&](const char* key) {
    const auto found = epoch.find(key);
    const bool known = found != epoch.end() && found->is_number();
    return known ? found->get<double>() : std::numeric_limits<double>::quiet_NaN();
  };
  const double each = number("epoch");
  const bool follows = each == static_cast<double>(watched_) + 1.0;  // not so behind another run's
  done_ += follows ? number("seconds") + number("evaluation_seconds")
                   : std::numeric_limits<double>::quiet_NaN();
  watched_ = static_cast<int64_t>(each);
  if (!wanted_ || epoch_ > 0) return false;
  const double value = number(wanted_->metric.c_str());
  const bool reached = larger_ ? value >= wanted_->value : value <= wanted_->value;
  if (!reached) return false;
  epoch_ = watched_;
  seconds_ = done_;
  return true;
}

json Goal::to_json() const {
  if (!wanted_) return {};
  json object = {{"epoch", nullptr}, {"seconds", nullptr}};
  if (wanted_->metric == "val_accuracy") {
    object["val_accuracy"] = wanted_->value;
  } else {
    object["metric"] = wanted_->metric;
    object["value"] = wanted_->value;
  }
  if (epoch_ > 0) {
    object["epoch"] = epoch_;
    if (!std::isnan(seconds_)) object["seconds"] = seconds_;
  }
  return object;
}

}  // namespace duet
