#include "compare/tables/format.h"

#include <algorithm>
#include <cmath>

#include "core/number_text.h"
#include "net/table.h"

namespace duet {
namespace {

std::string not_finite(double value) {
  if (std::isnan(value)) return "nan";
  return value > 0 ? "inf" : "-inf";
}

constexpr double kMany = 1e15;  // more than a table has room for, or 64 bits for digits

std::string fixed(double value, int decimals) {
  return std::fabs(value) >= kMany ? format_error(value) : printed("%.*f", decimals, value);
}

// The decimals that leave `digits` significant digits of a value that is not 0, after rounding:
// 9.996 has one digit before the point, but is written 10.0.
int decimals_for(double value, int digits) {
  const std::string text = printed("%.*e", digits - 1, std::fabs(value));
  const int exponent = std::stoi(text.substr(text.find('e') + 1));
  return digits - 1 - exponent;
}

}  // namespace

std::string shown(double value, std::string (*format)(double)) {
  return std::isnan(value) ? kNotMeasured : format(value);
}

std::string format_significant(double value) {
  if (!std::isfinite(value)) return not_finite(value);
  if (value == 0) return "0";
  if (std::fabs(value) < 1e-4 || std::fabs(value) >= kMany) return format_error(value);
  const int decimals = decimals_for(value, 3);
  if (decimals <= 0) return format_count(std::llround(value));
  return fixed(value, decimals);
}

std::string format_speedup(double ratio) {
  if (!std::isfinite(ratio)) return not_finite(ratio);
  if (std::fabs(ratio) >= 1 || ratio == 0) return fixed(ratio, 2) + "x";
  return format_significant(ratio) + "x";
}

std::string format_interval(double low, double high) {
  std::string first = format_speedup(low), second = format_speedup(high);
  for (std::string* text : {&first, &second}) {
    if (!text->empty() && text->back() == 'x') text->pop_back();
  }
  return first + " to " + second;
}

std::string format_share(double share) {
  if (!std::isfinite(share)) return not_finite(share);
  const double percent = 100 * share;
  if (percent == 0) return "0%";
  if (std::fabs(percent) >= 9.95) {
    return std::fabs(percent) < 1e12 ? format_count(std::llround(percent)) + "%"
                                     : format_error(percent) + "%";
  }
  if (std::fabs(percent) < 0.001) return format_error(percent) + "%";
  return fixed(percent, std::max(1, decimals_for(percent, 1))) + "%";
}

std::string format_error(double value) {
  if (!std::isfinite(value)) return not_finite(value);
  if (value == 0) return "0";
  return printed("%.1e", value);
}

std::string format_near_one(double value) {
  if (!std::isfinite(value)) return not_finite(value);
  const double missing = std::fabs(1 - value);
  if (missing < 5e-10) return "1";
  // One digit of what is missing, but no fewer than four decimals.
  return fixed(value, std::clamp(decimals_for(missing, 1), 4, 9));
}

std::string format_whole(double value) {
  if (!std::isfinite(value) || std::fabs(value) >= kMany) return format_significant(value);
  return format_count(std::llround(value));
}

std::string format_accuracy(double accuracy) {
  if (!std::isfinite(accuracy)) return not_finite(accuracy);
  return fixed(100 * accuracy, 2) + "%";
}

std::string format_seconds(double seconds) {
  if (!std::isfinite(seconds)) return not_finite(seconds);
  if (std::fabs(seconds) < 0.095 && seconds != 0) return format_significant(1e3 * seconds) + " ms";
  if (seconds < 10) return fixed(seconds, 2) + " s";
  if (seconds < 99.95 || seconds >= kMany) return fixed(seconds, 1) + " s";
  const int64_t whole = std::llround(seconds);
  return format_count(whole / 60) + " min " + std::to_string(whole % 60) + " s";
}

std::string format_time(double microseconds) {
  if (!std::isfinite(microseconds)) return not_finite(microseconds);
  if (microseconds < 999.5) return format_significant(microseconds) + " us";
  if (microseconds < 999.5e3) return format_significant(microseconds / 1e3) + " ms";
  return format_seconds(microseconds / 1e6);
}

}  // namespace duet
