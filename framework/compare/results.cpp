#include "compare/results.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>

#include "compare/fields.h"
#include "core/config.h"
#include "core/error.h"
#include "core/input_file.h"
#include "measure/environment.h"
#include "net/table.h"
#include "train/version.h"

namespace duet {

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr uint64_t kMostBytes = 64 << 20;  // of a file; one of ten arms has about two
constexpr size_t kMostCells = 1'000'000;   // ten arms by ten thousand rows

[[noreturn]] void refuse(const fs::path& path, const std::string& why) {
  throw DataError(path.string() + ": " + why);
}

constexpr size_t kMostEntries = 10'000;  // of a list that is no table: batches, layers of a network

// Every place of an arm that results speak of is that of an arm.
void check_places(const fs::path& path, const json& value, size_t arms) {
  if (value.is_object()) {
    for (const char* key : {"arm", "a", "b"}) {
      if (!number_at(value, key)) continue;
      const auto place = count_at(value, key);
      if (place && *place < arms) continue;
      refuse(path, "'" + std::string(key) + "' is " + member(value, key).dump() +
                       ", not one of the " + std::to_string(arms) +
                       " arms, counted from 0; the file is damaged");
    }
  }
  if (!value.is_structured()) return;
  for (const json& part : value) check_places(path, part, arms);
}

// Tables are larger than what they are made of: each row has columns for all arms, and for all
// pairs of them.
void check_size(const fs::path& path, const json& results, size_t arms) {
  size_t rows = list(member(results, "throughput")).size();
  for (const json& batch : list(member(results, "layers"))) {
    rows += list(member(batch, "rows")).size();
  }
  const json& training = member(results, "training");
  const json& trained = list(member(training, "arms"));
  size_t steps = list(member(training, "seeds")).size();
  for (const json& arm : trained) steps = std::max(steps, list(member(arm, "loss")).size());
  const size_t columns = 2 * trained.size() + list(member(training, "differences")).size();
  if (rows * arms * arms > kMostCells || steps * columns > kMostCells) {
    refuse(path, "has more rows and arms than tables have room for; is it of 'compare --out'?");
  }
}

// Lists that a reader walks for each arm or each other list.
void check_lists(const fs::path& path, const json& results, size_t arms) {
  const auto bound = [&](const json& all, size_t most, const std::string& what) {
    if (list(all).size() <= most) return;
    refuse(path, "has " + std::to_string(list(all).size()) + " " + what + ", more than " +
                     std::to_string(most) + "; the file is damaged");
  };
  for (const json& arm : list(member(results, "arms"))) {
    bound(member(arm, "network"), kMostEntries, "layers of an arm's network");
  }
  bound(member(results, "layers"), kMostEntries, "batches of 'layers'");
  bound(member(results, "throughput"), kMostEntries, "batches of 'throughput'");
  for (const json& batch : list(member(results, "layers"))) {
    bound(member(batch, "totals"), arms, "totals of a batch");
    for (const json& row : list(member(batch, "rows"))) {
      bound(member(row, "arms"), arms, "arms in a row of 'layers'");
    }
  }
  for (const json& row : list(member(results, "throughput"))) {
    bound(member(row, "arms"), arms, "arms in a row of 'throughput'");
  }
  bound(member(member(results, "training"), "arms"), arms, "arms in 'training'");
}

// The form of results, as far as a reader that copes with whatever is missing relies on it.
void check_form(const fs::path& path, const json& results) {
  const auto expect = [&](bool right, const std::string& key, const std::string& form) {
    if (!right) refuse(path, "'" + key + "' is not " + form + "; the file is damaged");
  };
  const json& arms = member(results, "arms");
  expect(arms.is_array() && !arms.empty(), "arms", "a list of at least one arm");
  for (const json& arm : arms)
    expect(!text_at(arm, "name").empty(), "arms", "a list of named arms");
  for (const char* key : {"layers", "throughput"}) {
    const json& section = member(results, key);
    expect(section.is_null() || section.is_array(), key, "a list");
    for (const json& entry : list(section)) expect(entry.is_object(), key, "a list of objects");
  }
  for (const char* key : {"training", "summary", "environment"}) {
    const json& section = member(results, key);
    expect(section.is_null() || section.is_object(), key, "an object");
  }
  const size_t count = arm_count(results);
  for (const char* key : {"layers", "training", "throughput"}) {
    check_places(path, member(results, key), count);
  }
  check_lists(path, results, count);
  check_size(path, results, count);
}

}  // namespace

json number_json(double value) { return std::isfinite(value) ? json(value) : json(); }

json microseconds_json(const Summary& seconds) {
  return {{"median", 1e6 * seconds.median}, {"p20", 1e6 * seconds.p20}, {"p80", 1e6 * seconds.p80}};
}

json ratio_json(size_t a, size_t b, const Times& times_a, const Times& times_b) {
  if (same_code(times_a, times_b)) {
    std::vector<double> seconds = times_a.seconds;
    seconds.insert(seconds.end(), times_b.seconds.begin(), times_b.seconds.end());
    const Summary all = summarise(seconds);
    return {{"a", a},
            {"b", b},
            {"verdict", kSameCode},
            {"spread", {number_json(all.p20 / all.median), number_json(all.p80 / all.median)}}};
  }
  const Ratio ratio = speedup(times_a.seconds, times_b.seconds);
  return {{"a", a},
          {"b", b},
          {"speedup", ratio.speedup},
          {"low", ratio.low},
          {"high", ratio.high},
          {"verdict", to_string(ratio.verdict)}};
}

json ratios_json(const std::vector<const Times*>& times) {
  json list = json::array();
  if (times.empty() || !times[0]) return list;
  for (size_t i = 1; i < times.size(); ++i) {
    if (times[i]) list.push_back(ratio_json(0, i, *times[0], *times[i]));
  }
  return list;
}

json environment_json() {
  const Environment environment = read_environment();
  json versions = json::array();
  for (const auto& [name, version] : environment.versions) versions.push_back({name, version});
  json object = {{"duet", version_text()}, {"versions", versions},
                 {"cpu", environment.cpu}, {"cpu_threads", environment.cpu_threads},
                 {"os", environment.os},   {"compiler", environment.compiler}};
  if (!environment.gpu.empty()) {
    object["gpu"] = environment.gpu;
    object["gpu_memory_bytes"] = environment.gpu_memory_bytes;
  }
  if (!environment.driver.empty()) object["driver"] = environment.driver;
  return object;
}

json ceilings_json(const Ceilings& ceilings, Device device) {
  json object = {{"device", to_string(device)},
                 {"copy_gb_per_s", 1e-9 * ceilings.copy_bytes_per_second},
                 {"fp32_gflop_per_s", 1e-9 * ceilings.fp32_flops_per_second}};
  if (device == Device::kGpu) {
    object["tf32_gflop_per_s"] = 1e-9 * ceilings.tf32_flops_per_second;
    object["launch_us"] = 1e6 * ceilings.launch_seconds;
  }
  return object;
}

json clocks_json(const ClockReport& report) {
  return {{"samples", report.samples},
          {"sm_mhz_min", report.sm_mhz_min},
          {"sm_mhz_max", report.sm_mhz_max},
          {"temperature_c_max", report.temperature_c_max},
          {"throttled", !report.reasons.empty()},
          {"throttled_share", static_cast<double>(report.slowed_samples) / report.samples},
          {"reasons", report.reasons}};
}

json load_json(const LoadReport& report) {
  return {{"cores", report.cores},
          {"others_share", report.others_share},
          {"waited_share", report.waited_share},
          {"load_average", report.load_average}};
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  return text;
}

json load_results(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) refuse(path, "is a folder; name the results.json in it");
  const std::string text = read_input_file(path, kMostBytes);
  json results;
  try {
    check_json_bounds(text);
    results = json::parse(text);
  } catch (const DataError& e) {
    refuse(path, std::string("not results of compare: ") + e.what());
  } catch (const json::exception& e) {
    refuse(path, std::string("not JSON, or cut short: ") + e.what());
  }
  const std::string schema = text_at(results, "schema");
  if (schema.empty()) refuse(path, "not results of compare: there is no \"schema\" in it");
  if (schema != kResultsSchema) {
    refuse(path, "results of the form '" + schema + "'; this Duet reads '" +
                     std::string(kResultsSchema) + "'");
  }
  check_form(path, results);
  results["summary"] = summarise_results(results);
  return results;
}

std::string results_file_text(const json& results) { return json_text(results, 1) + "\n"; }

// ---- --fail-on ----

FailOn read_fail_on(const std::vector<std::string>& words) {
  FailOn fail_on;
  std::vector<std::string> mistakes;
  for (const std::string& word : words) {
    if (word == "mismatch") {
      fail_on.mismatch = true;
    } else if (word == "slower") {
      fail_on.slower = true;
    } else if (word.starts_with("slower:")) {
      const std::string text = word.substr(7);
      char* end = nullptr;
      fail_on.slower = true;
      fail_on.ratio = std::strtod(text.c_str(), &end);
      if (text.empty() || *end || !(fail_on.ratio > 0) || !std::isfinite(fail_on.ratio)) {
        mistakes.push_back("--fail-on " + word +
                           ": expected a ratio above 0 after the colon, e.g. slower:0.95");
      }
    } else {
      mistakes.push_back("--fail-on " + word + ": unknown" +
                         did_you_mean(word, {"mismatch", "slower"}) +
                         "; there are mismatch, slower and slower:RATIO");
    }
  }
  if (!mistakes.empty()) throw ConfigError(join(mistakes, "\n"));
  return fail_on;
}

}  // namespace duet
