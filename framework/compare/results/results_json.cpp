#include "compare/results/results_json.h"

#include <algorithm>

#include "compare/tables/summary.h"
#include "core/input_file.h"
#include "net/json_file.h"
#include "net/table.h"

namespace duet {

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr uint64_t kMostResultBytes = 64 << 20;  // of a file; one of ten arms has about two
constexpr size_t kMostCells = 1'000'000;         // ten arms by ten thousand rows
constexpr size_t kMostEntries = 10'000;          // of a list that is no numbers

// Tables are larger than what they are made of: each row has columns for all arms, and for all
// pairs of them.
void check_size(const Results& results) {
  const size_t arms = results.arms.size();
  size_t rows = results.throughput.size(), steps = 0, columns = 0;
  for (const LayersSection& batch : results.layers) rows += batch.rows.size();
  if (results.training) {
    steps = results.training->seeds.size();
    columns = 2 * results.training->arms.size() + results.training->differences.size();
    for (const TrainedArm& arm : results.training->arms) steps = std::max(steps, arm.loss.size());
  }
  if (rows * arms * arms > kMostCells || steps * columns > kMostCells) {
    throw DataError("has more rows and arms than tables have room for; is it of 'compare --out'?");
  }
}

}  // namespace

std::string JsonReader::At::text() const {
  if (!parent) return "";
  if (!key) return parent->text() + "[" + std::to_string(index) + "]";
  return parent->text() + (parent->parent ? "." : "") + key;
}

void JsonReader::refuse(const At& at, const std::string& why) {
  throw DataError("'" + at.text() + "' " + why + "; the file is damaged");
}

void JsonReader::refuse(const At& at, const json& found, const std::string& wanted) {
  const std::string text = found.is_structured() ? found.type_name() : json_text(found);
  refuse(at, "is " + text.substr(0, 100) + ", not " + wanted);
}

double JsonReader::number(const json& json, const At& at) {
  if (!json.is_number()) refuse(at, json, "a number");
  return json.get<double>();
}

double JsonReader::count(const json& json, const At& at) {
  const double value = number(json, at);
  if (value >= 0 && value <= 1e15 && std::floor(value) == value) return value;
  refuse(at, json, "a count");
}

void JsonReader::check_list(const json& json, const At& at, bool of_numbers) {
  if (!json.is_array()) refuse(at, json, "a list");
  if (of_numbers || json.size() <= kMostEntries) return;
  refuse(at, "has " + std::to_string(json.size()) + " entries, more than " +
                 std::to_string(kMostEntries));
}

Results results_from(const json& json) {
  Results results = JsonReader::read<Results>(json);
  if (results.arms.empty())
    throw DataError("'arms' is not a list of at least one arm; the file is damaged");
  for (const ArmRecord& arm : results.arms) {
    if (arm.name.empty())
      throw DataError("'arms' is not a list of named arms; the file is damaged");
  }
  check_size(results);
  return results;
}

std::vector<NetworkLayer> network_from(const json& network) {
  return JsonReader::read<std::vector<NetworkLayer>>(network);
}

json read_results_file(const fs::path& path, const std::string& program, const char* schema_here) {
  const auto refuse = [&](const std::string& why) { throw DataError(path.string() + ": " + why); };
  std::error_code error;
  if (fs::is_directory(path, error)) refuse("is a folder; name the results.json in it");
  const std::string text = read_input_file(path, kMostResultBytes);
  json parsed;
  try {
    parsed = parse_json(text);
  } catch (const DataError& e) {
    refuse(e.what());
  }
  const json schema = parsed.is_object() ? parsed.value("schema", json()) : json();
  if (!schema.is_string()) refuse("not results of " + program + ": there is no \"schema\" in it");
  if (schema != schema_here) {
    refuse("results of the form '" + schema.get<std::string>() + "'; of " + program +
           " this Duet reads '" + schema_here + "'");
  }
  return parsed;
}

Results load_results(const fs::path& path) {
  const json parsed = read_results_file(path, "compare", kResultsSchema);
  return in_file(path, [&] {
    Results results = results_from(parsed);
    results.summary = summarise(results);
    return results;
  });
}

json to_json(const Results& results) {
  json object = JsonWriter::write(results);
  object["schema"] = kResultsSchema;
  return object;
}

json to_json(const BenchResults& results) {
  json object = JsonWriter::write(results);
  object["schema"] = kBenchSchema;
  return object;
}

std::string file_text(const json& json) { return json_text(json, 1) + "\n"; }

}  // namespace duet
