#include "core/config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/number_text.h"
#include "core/open_range.h"

namespace duet {
namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

// Shortest decimal that reads back as the same double.
std::string format_number(double value) {
  char buffer[32];
  const auto [end, ec] = std::to_chars(buffer, buffer + sizeof buffer, value);
  return std::string(buffer, end);
}

std::string describe(const ConfigNode& node) {
  switch (node.kind) {
    case ConfigNode::Kind::kNull:
      return "nothing";
    case ConfigNode::Kind::kScalar:
      return "'" + node.scalar + "'";
    case ConfigNode::Kind::kList:
      return "a list";
    case ConfigNode::Kind::kMap:
      return "a map";
  }
  return "?";
}

// A number that becomes neither infinite nor 0 as a float, nor loses digits below its least exponent. `text` is a number's.
bool float_holds(const std::string& text, double value) {
  if (value == 0.0)
    return text.find_first_of("123456789") >= text.find_first_of("eE");  // not 1e-400
  const float number = std::abs(static_cast<float>(value));
  return number >= std::numeric_limits<float>::min() && std::isfinite(number);
}

constexpr const char* kHeldByFloat =
    "a number that float32 holds (0, or from 1.2e-38 to 3.4e38 in size)";

// A limit that only the machine sets is told to those who passed it.
std::string range_text(double min, double max, double found) {
  const bool above_zero = min == kAboveZero;
  const std::string least = above_zero ? " above 0" : " of at least " + format_number(min);
  if (std::isinf(max) || (max >= ConfigReader::kMaxInteger && found <= max)) {
    return std::isinf(min) ? "" : least;
  }
  if (max == kBelowOne) return least + " and below 1";
  if (above_zero) return least + " and at most " + format_number(max);
  return " from " + format_number(min) + " to " + format_number(max);
}

}  // namespace

std::optional<int64_t> parse_integer(const std::string& s) {
  int64_t value = 0;
  const auto [end, ec] = std::from_chars(s.data(), s.data() + s.size(), value);
  if (end != s.data() + s.size() || s.empty()) return {};
  if (ec == std::errc::result_out_of_range) {
    return s[0] == '-' ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
  }
  return ec == std::errc() ? std::optional(value) : std::nullopt;
}

std::optional<double> parse_number(const std::string& s) {
  char* end = nullptr;
  const double value = read_number(s.c_str(), &end);
  if (s.empty() || end != s.c_str() + s.size() || !std::isfinite(value)) return {};
  return value;
}

ConfigNode ConfigNode::of(std::string_view text) {
  return {.kind = Kind::kScalar, .scalar = std::string(text)};
}

ConfigNode* ConfigNode::find(std::string_view key) {
  for (auto& [name, value] : entries) {
    if (name == key) return &value;
  }
  return nullptr;
}
const ConfigNode* ConfigNode::find(std::string_view key) const {
  return const_cast<ConfigNode*>(this)->find(key);
}

ConfigNode& ConfigNode::at_or_add(std::string_view key) {
  kind = Kind::kMap;
  if (ConfigNode* found = find(key)) return *found;
  return entries.emplace_back(std::string(key), ConfigNode{}).second;
}

void ConfigNode::erase(std::string_view key) {
  std::erase_if(entries, [&](const auto& entry) { return entry.first == key; });
}

void ConfigErrors::insert(Mark mark, const std::string& message) {
  constexpr size_t kMostMessages = 100;
  if (messages_.size() == kMostMessages) {
    ++more_;
    return;
  }
  const auto after = [](const Mark& a, const Message& b) {
    return std::pair(a.line, a.column) < std::pair(b.mark.line, b.mark.column);
  };
  messages_.insert(std::upper_bound(messages_.begin(), messages_.end(), mark, after),
                   {mark, message});
}

void ConfigErrors::add(Mark mark, const std::string& message) {
  only_unsupported_ = false;
  insert(mark, message);
}

void ConfigErrors::add_unsupported(Mark mark, const std::string& message) { insert(mark, message); }

void ConfigErrors::raise_if_any() const {
  if (messages_.empty()) return;
  std::string text;
  for (const Message& m : messages_) {
    if (!text.empty()) text += "\n";
    text += m.mark.line == Mark::kCommandLine ? "command line" : file_;
    if (m.mark.line > 0) {
      text += ":" + std::to_string(m.mark.line) + ":" + std::to_string(m.mark.column);
    }
    text += ": " + m.text;
  }
  if (more_) text += "\nand " + std::to_string(more_) + " more mistakes";
  if (only_unsupported_) throw UnsupportedError(text);
  throw ConfigError(text);
}

ConfigReader::ConfigReader(ConfigNode& node, std::string path, ConfigErrors& errors)
    : node_(node), path_(std::move(path)), errors_(errors) {
  if (node_.kind == ConfigNode::Kind::kNull) node_.kind = ConfigNode::Kind::kMap;
  if (node_.kind != ConfigNode::Kind::kMap) {
    errors_.add(node_.mark, path_ + ": expected a map (key: value), found " + describe(node_));
    node_ = ConfigNode::map();
  }
}

Mark ConfigReader::mark(std::string_view key) const {
  const ConfigNode* value = node_.find(key);
  return value && value->mark.line != 0 ? value->mark : node_.mark;
}

ConfigNode* ConfigReader::raw(std::string_view key) {
  if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) asked_.emplace_back(key);
  return node_.find(key);
}

ConfigNode* ConfigReader::value_of(std::string_view key, bool required) {
  ConfigNode* value = raw(key);
  if (value && value->kind == ConfigNode::Kind::kNull) {
    errors_.add(value->key_mark, path_ + ": key '" + std::string(key) + "' has no value");
    return nullptr;
  }
  if (!value && required) {
    errors_.add(node_.mark, path_ + ": required key '" + std::string(key) + "' is missing");
  }
  return value;
}

void ConfigReader::error(std::string_view key, const std::string& message) {
  errors_.add(mark(key), path_ + ": " + std::string(key) + ": " + message);
}

int64_t ConfigReader::integer(std::string_view key, std::optional<int64_t> fallback, int64_t min,
                              int64_t max) {
  ConfigNode* value = value_of(key, !fallback);
  const int64_t otherwise = fallback.value_or(min);
  if (!value) {
    if (fallback && !has(key)) node_.at_or_add(key) = ConfigNode::of(std::to_string(*fallback));
    return otherwise;
  }
  const auto parsed = value->kind == ConfigNode::Kind::kScalar ? parse_integer(value->scalar)
                                                               : std::optional<int64_t>();
  if (parsed && *parsed >= min && *parsed <= max) return *parsed;
  error(key, "expected a whole number" +
                 range_text(static_cast<double>(min), static_cast<double>(max),
                            static_cast<double>(parsed.value_or(0))) +
                 ", found " + describe(*value));
  return otherwise;
}

double ConfigReader::number(std::string_view key, std::optional<double> fallback, double min,
                            double max) {
  ConfigNode* value = value_of(key, !fallback);
  const double otherwise = fallback.value_or(std::isinf(min) ? 0.0 : min);
  if (!value) {
    if (fallback && !has(key)) node_.at_or_add(key) = ConfigNode::of(format_number(*fallback));
    return otherwise;
  }
  const auto parsed = value->kind == ConfigNode::Kind::kScalar ? parse_number(value->scalar)
                                                               : std::optional<double>();
  if (parsed && *parsed >= min && *parsed <= max) {
    if (float_holds(value->scalar, *parsed)) return *parsed;
    error(key, std::string("expected ") + kHeldByFloat + ", found " + describe(*value));
    return otherwise;
  }
  error(key, "expected a number" + range_text(min, max, parsed.value_or(0.0)) + ", found " +
                 describe(*value));
  return otherwise;
}

bool ConfigReader::flag(std::string_view key, std::optional<bool> fallback) {
  ConfigNode* value = value_of(key, !fallback);
  if (!value) {
    if (fallback && !has(key)) node_.at_or_add(key) = ConfigNode::of(*fallback ? "true" : "false");
    return fallback.value_or(false);
  }
  if (value->kind == ConfigNode::Kind::kScalar) {
    if (value->scalar == "true") return true;
    if (value->scalar == "false") return false;
  }
  error(key, "expected true or false, found " + describe(*value));
  return fallback.value_or(false);
}

std::string ConfigReader::text(std::string_view key, std::optional<std::string> fallback) {
  ConfigNode* value = value_of(key, !fallback);
  if (!value) {
    if (fallback && !has(key)) node_.at_or_add(key) = ConfigNode::of(*fallback);
    return fallback.value_or("");
  }
  if (value->kind == ConfigNode::Kind::kScalar && !value->scalar.empty()) return value->scalar;
  error(key, "expected text, found " + describe(*value));
  return fallback.value_or("");
}

std::string ConfigReader::choice(std::string_view key, const std::vector<std::string>& options,
                                 std::optional<std::string> fallback) {
  const std::string value = text(key, fallback);
  if (value.empty()) return fallback.value_or(options.front());  // told already
  if (std::find(options.begin(), options.end(), value) != options.end()) return value;
  if (has(key)) {
    error(key, "unknown value '" + value + "'" + did_you_mean(value, options) +
                   "; known: " + join(options));
  }
  return fallback.value_or(options.front());
}

std::pair<int64_t, int64_t> ConfigReader::integer_pair(std::string_view key,
                                                       std::optional<int64_t> fallback,
                                                       int64_t min) {
  ConfigNode* value = node_.find(key);
  if (!value || value->kind != ConfigNode::Kind::kList) {
    const int64_t both = integer(key, fallback, min);
    return {both, both};
  }
  raw(key);
  std::vector<int64_t> sizes;
  for (const ConfigNode& item : value->items) {
    const auto parsed = item.kind == ConfigNode::Kind::kScalar ? parse_integer(item.scalar)
                                                               : std::optional<int64_t>();
    if (parsed && *parsed >= min && *parsed <= kMaxInteger) sizes.push_back(*parsed);
  }
  if (sizes.size() == 2 && value->items.size() == 2) return {sizes[0], sizes[1]};
  error(key,
        "expected one whole number, or [height, width], each of at least " + std::to_string(min));
  const int64_t otherwise = fallback.value_or(min);
  return {otherwise, otherwise};
}

std::vector<std::string> ConfigReader::texts(std::string_view key, std::string_view what) {
  const ConfigNode* value = value_of(key, true);
  if (!value) return {};
  std::vector<std::string> texts;
  if (value->kind == ConfigNode::Kind::kScalar) texts.push_back(value->scalar);
  for (const ConfigNode& item : value->items) texts.push_back(item.scalar);
  if (!texts.empty() && std::find(texts.begin(), texts.end(), "") == texts.end()) return texts;
  error(key, "expected " + std::string(what) + ", or a list of names");
  return {};
}

std::vector<double> ConfigReader::numbers(std::string_view key, std::vector<double> fallback) {
  ConfigNode* value = value_of(key, false);
  if (!value) {
    if (!has(key)) {
      ConfigNode list{.kind = ConfigNode::Kind::kList};
      for (double v : fallback) list.items.push_back(ConfigNode::of(format_number(v)));
      node_.at_or_add(key) = list;
    }
    return fallback;
  }
  std::vector<ConfigNode> items =
      value->kind == ConfigNode::Kind::kList ? value->items : std::vector<ConfigNode>{*value};
  std::vector<double> result;
  for (const ConfigNode& item : items) {
    const auto parsed = item.kind == ConfigNode::Kind::kScalar ? parse_number(item.scalar)
                                                               : std::optional<double>();
    if (!parsed) {
      error(key, "expected a number or a list of numbers, found " + describe(item));
      return fallback;
    }
    if (!float_holds(item.scalar, *parsed)) {
      error(key, std::string("expected ") + kHeldByFloat + ", found " + describe(item));
      return fallback;
    }
    result.push_back(*parsed);
  }
  return result;
}

ConfigReader ConfigReader::map(std::string_view key) {
  raw(key);
  ConfigNode& child = node_.at_or_add(key);
  if (child.mark.line == 0) child.mark = node_.mark;
  return ConfigReader(child, std::string(key), errors_);
}

void ConfigReader::reject(std::string_view key, const std::string& why) {
  const ConfigNode* value = node_.find(key);
  if (!value) return;
  errors_.add(value->key_mark, path_ + ": there is no key '" + std::string(key) + "'; " + why);
  node_.erase(key);
}

void ConfigReader::finish() {
  for (const auto& [key, value] : node_.entries) {
    if (std::find(asked_.begin(), asked_.end(), key) != asked_.end()) continue;
    const std::string hint = did_you_mean(key, asked_);
    errors_.add(value.key_mark, path_ + ": unknown key '" + key + "'" +
                                    (hint.empty() ? "; known keys: " + join(asked_) : hint));
  }
}

std::optional<std::string> nearest(std::string_view word,
                                   const std::vector<std::string>& candidates) {
  std::optional<std::string> best;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const auto near = nearest(word, candidates);
  return near ? " (did you mean '" + *near + "'?)" : "";
}

std::string join(const std::vector<std::string>& words, std::string_view separator) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += separator;
    text += word;
  }
  return text;
}

}  // namespace duet
