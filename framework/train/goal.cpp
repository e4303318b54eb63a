#include "train/goal.h"

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
  if (val_accuracy_ == 0.0 || epoch_ > 0 || !(number("val_accuracy") >= val_accuracy_)) {
    return false;
  }
  epoch_ = watched_;
  seconds_ = done_;
  return true;
}

json Goal::to_json() const {
  if (val_accuracy_ == 0.0) return {};
  json object = {{"val_accuracy", val_accuracy_}, {"epoch", nullptr}, {"seconds", nullptr}};
  if (epoch_ > 0) {
    object["epoch"] = epoch_;
    if (!std::isnan(seconds_)) object["seconds"] = seconds_;
  }
  return object;
}

}  // namespace duet
