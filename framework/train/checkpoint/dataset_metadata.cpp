#include "train/checkpoint/dataset_metadata.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/printable.h"
#include "net/json_file.h"
#include "net/table.h"

namespace duet {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kInputOfImages = "(byte / 255 - mean) / stddev";
constexpr const char* kInputOfNumbers = "(number - mean) / stddev";
constexpr int64_t kMostSize = 1 << 20;
constexpr int64_t kMostPixels = int64_t{1} << 31;  // of one image, all channels

class Fields {
 public:
  explicit Fields(const json& object) : object_(object) {
    if (!object_.is_object()) throw DataError("expected a JSON object");
  }

  bool has(const char* key) const { return object_.contains(key); }
  int64_t size(const char* key) const {
    const json& value = at(key);
    if (value.is_number_integer() && value >= 1 && value <= kMostSize) return value;
    fail(key, "a whole number from 1 to " + std::to_string(kMostSize));
  }
  std::string text(const char* key) const {
    if (at(key).is_string()) return at(key);
    fail(key, "text");
  }
  // `count` numbers; positive ones if `positive`.
  std::vector<double> numbers(const char* key, int64_t count, bool positive) const {
    const bool right =
        is_list(key, count) && std::all_of(at(key).begin(), at(key).end(), [&](const json& value) {
          return value.is_number() && std::isfinite(value.get<double>()) &&
                 (!positive || value > 0.0);
        });
    if (right) return at(key).get<std::vector<double>>();
    fail(key, std::to_string(count) + (positive ? " positive numbers" : " numbers"));
  }
  // A list of texts.
  std::vector<std::string> texts(const char* key) const {
    const json& list = at(key);
    const bool right =
        list.is_array() &&
        std::all_of(list.begin(), list.end(), [](const json& value) { return value.is_string(); });
    if (right) return list.get<std::vector<std::string>>();
    fail(key, "a list of names");
  }

 private:
  const json& at(const char* key) const {
    const auto found = object_.find(key);
    if (found == object_.end()) throw DataError(std::string("it has no '") + key + "'");
    return *found;
  }
  bool is_list(const char* key, int64_t count) const {
    return at(key).is_array() && static_cast<int64_t>(at(key).size()) == count;
  }
  [[noreturn]] void fail(const char* key, const std::string& expected) const {
    throw DataError(std::string("'") + key + "' is " + printable(json_text(at(key))) +
                    ", expected " + expected);
  }

  const json& object_;
};

}  // namespace

std::string dataset_metadata(const DatasetInfo& info, const std::string& fingerprint) {
  ordered_json object = {
      {"name", info.name},          {"fingerprint", fingerprint},
      {"channels", info.channels},  {"height", info.height},
      {"width", info.width},        {"input", info.numbers ? kInputOfNumbers : kInputOfImages},
      {"mean", info.mean},          {"stddev", info.stddev},
      {"classes", info.class_names}};
  if (!info.columns.empty()) object["columns"] = info.columns;
  for (const RecordField& record : info.records) {
    if (!record.elements.empty()) object[record.name] = record.elements;
  }
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

DatasetInfo read_dataset_metadata(const std::string& text) {
  const json object = parse_json(text);
  const Fields fields(object);
  DatasetInfo info;
  info.name = fields.text("name");
  info.channels = fields.size("channels");
  info.height = fields.size("height");
  info.width = fields.size("width");
  if (info.channels * info.height > kMostPixels / info.width) {
    throw DataError("images of " + std::to_string(info.channels) + "x" +
                    std::to_string(info.height) + "x" + std::to_string(info.width) +
                    " are larger than any network takes");
  }
  const std::string input = fields.text("input");
  info.numbers = input == kInputOfNumbers;
  if (!info.numbers && input != kInputOfImages) {
    throw DataError("'input' is '" + printable(input) + "', expected '" + kInputOfImages +
                    "' or '" + kInputOfNumbers + "'");
  }
  info.mean = fields.numbers("mean", info.channels, false);
  info.stddev = fields.numbers("stddev", info.channels, true);
  info.class_names = fields.texts("classes");
  info.classes = static_cast<int64_t>(info.class_names.size());
  if (fields.has("columns")) {
    info.columns = fields.texts("columns");
    if (static_cast<int64_t>(info.columns.size()) != info.channels || !info.numbers) {
      throw DataError("'columns' are " + std::to_string(info.columns.size()) + " names of " +
                      std::to_string(info.channels) + " numbers");
    }
  }
  return info;
}

}  // namespace duet
