#include "compare/fields.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "compare/format.h"

namespace duet {

using nlohmann::json;

const json& member(const json& value, std::string_view key) {
  static const json null;
  if (!value.is_object()) return null;
  const auto found = value.find(std::string(key));
  return found == value.end() ? null : *found;
}

const json& element(const json& value, std::optional<size_t> index) {
  static const json null;
  return value.is_array() && index && *index < value.size() ? value[*index] : null;
}

const json& list(const json& value) {
  static const json empty = json::array();
  return value.is_array() ? value : empty;
}

std::optional<double> number(const json& value) {
  if (!value.is_number()) return std::nullopt;
  return value.get<double>();
}

std::optional<double> number_at(const json& value, const std::string& key) {
  return number(member(value, key));
}

std::optional<size_t> count_at(const json& value, const std::string& key) {
  const auto found = number_at(value, key);
  if (!found || !(*found >= 0 && *found <= 1e15) || std::floor(*found) != *found) return {};
  return static_cast<size_t>(*found);
}

std::string text_at(const json& value, const std::string& key) {
  const json& text = member(value, key);
  return text.is_string() ? text.get<std::string>() : "";
}

bool is_true(const json& value, const std::string& key) {
  const json& flag = member(value, key);
  return flag.is_boolean() && flag.get<bool>();
}

std::string shown(std::optional<double> value, std::string (*format)(double)) {
  return value ? format(*value) : kNotMeasured;
}

std::string spread_of_same_code(const json& ratio) {
  const json& spread = member(ratio, "spread");
  const auto low = number(element(spread, 0)), high = number(element(spread, 1));
  return low && high ? format_interval(*low, *high) : "";
}

std::string arm_name(const json& results, size_t index) {
  const std::string name = text_at(element(member(results, "arms"), index), "name");
  return name.empty() ? "arm " + std::to_string(index + 1) : name;
}

std::string arm_of(const json& results, const json& value, const std::string& key) {
  const auto index = count_at(value, key);
  return index ? arm_name(results, *index) : kNotMeasured;
}

std::string stopped_text(const json& results) {
  const std::string why = text_at(results, "stopped");
  return why.empty() ? "" : why + "; what had not been measured by then is missing";
}

std::string left_out_text(const json& results) {
  std::string text;
  for (const json& part : list(member(results, "left_out"))) {
    if (part.is_string()) text += (text.empty() ? "" : "; ") + part.get<std::string>();
  }
  return text;
}

size_t arm_count(const json& results) {
  size_t count = list(member(results, "arms")).size();
  if (count > 0) return count;
  for (const json& batch : list(member(results, "layers"))) {
    for (const json& row : list(member(batch, "rows"))) {
      count = std::max(count, list(member(row, "arms")).size());
    }
  }
  return count;
}

}  // namespace duet
