#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "compare/fields.h"
#include "compare/format.h"
#include "compare/result_tables.h"
#include "compare/table_cells.h"
#include "net/table.h"

namespace duet {

using nlohmann::json;

namespace {

Figure speed_figure(const json& results, const json& ratio, const std::string& label) {
  Figure figure;
  const Cell verdict = verdict_cell(ratio);
  figure.label = label;
  figure.value = shown(number_at(ratio, "speedup"), format_speedup);
  figure.note = arm_of(results, ratio, "a") + " against " + arm_of(results, ratio, "b");
  const std::string spread = spread_of_same_code(ratio);
  if (!spread.empty()) figure.note += ", spread " + spread;
  const auto low = number_at(ratio, "low"), high = number_at(ratio, "high");
  if (low && high) figure.note += ", " + format_interval(*low, *high);
  figure.note += ": " + verdict.text;
  figure.tone = verdict.tone;
  return figure;
}

// The tensor nearest to its limit, of all arms and batch sizes.
std::optional<Figure> error_figure(const json& results) {
  std::optional<double> worst;
  Figure figure;
  for (const json& batch : list(member(results, "layers"))) {
    for (const json& row : list(member(batch, "rows"))) {
      const json& arms = list(member(row, "arms"));
      for (size_t i = 0; i < arms.size(); ++i) {
        for (const json& tensor : list(member(arms[i], "tensors"))) {
          const auto share = number_at(tensor, "share_of_limit");
          if (!share || (worst && *share <= *worst)) continue;
          worst = share;
          // Beyond ten times the limit a percentage is hard to read.
          figure = {"largest error, of its limit",
                    *share > 10 ? format_significant(*share) + "x" : format_share(*share),
                    arm_name(results, i) + ", " + text_at(row, "layer") + " " +
                        text_at(row, "pass") + " " + text_at(tensor, "name") + ", batch " +
                        batch_text(batch),
                    *share <= 1 ? Tone::kPlain : Tone::kBad};
        }
      }
    }
  }
  if (!worst) return std::nullopt;
  return figure;
}

Figure accuracy_figure(const json& results, const json& difference) {
  char value[48] = "-", interval[64] = "";
  if (const auto mean = number_at(difference, "accuracy_mean_difference")) {
    std::snprintf(value, sizeof value, "%+.2f", 100 * *mean);
  }
  const auto low = number_at(difference, "low"), high = number_at(difference, "high");
  if (low && high) {
    std::snprintf(interval, sizeof interval, ", %+.2f to %+.2f", 100 * *low, 100 * *high);
  }
  const Cell verdict = verdict_cell(difference);
  return {"accuracy difference, points", value,
          arm_of(results, difference, "a") + " against " + arm_of(results, difference, "b") +
              interval + ": " + verdict.text,
          verdict.tone};
}

// Names of the environment's keys, in the order in which they are shown; others follow as words.
constexpr std::pair<const char*, const char*> kEnvironmentNames[] = {
    {"duet", "Duet"},     {"gpu", "GPU"},           {"gpu_memory_bytes", "GPU memory"},
    {"driver", "driver"}, {"cpu", "CPU"},           {"cpu_threads", "CPU threads"},
    {"os", "system"},     {"compiler", "compiler"},
};

std::string words(std::string key) {
  for (char& letter : key) {
    if (letter == '_') letter = ' ';
  }
  return key;
}

std::string value_text(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_number_integer()) return format_whole(value.get<double>());
  if (value.is_number()) return format_significant(value.get<double>());
  if (value.is_array()) {
    std::string text;
    for (const json& item : value) text += (text.empty() ? "" : ", ") + value_text(item);
    return text.empty() ? "none" : text;
  }
  return json_text(value);
}

void add(ResultTable* table, const std::string& name, const std::string& value,
         Tone tone = Tone::kPlain) {
  if (!value.empty()) table->rows.push_back({{name}, {value, tone}});
}

std::string with_unit(const json& value, const std::string& key, const std::string& unit) {
  const auto found = number_at(value, key);
  return found ? format_significant(*found) + " " + unit : "";
}

std::string range(const json& value, const std::string& low, const std::string& high,
                  const std::string& unit) {
  const auto first = number_at(value, low), last = number_at(value, high);
  if (!first || !last) return "";
  if (*first == *last) return format_significant(*first) + " " + unit;
  return format_significant(*first) + " to " + format_significant(*last) + " " + unit;
}

void add_load(const json& load, ResultTable* table) {
  if (!load.is_object()) return;
  const std::string cores = shown(number_at(load, "cores"), format_whole);
  add(table, "other processes' share of " + cores + " cores",
      shown(number_at(load, "others_share"), format_share));
  add(table, "time spent waiting for a core", shown(number_at(load, "waited_share"), format_share));
  add(table, "load average at the end", shown(number_at(load, "load_average"), format_significant));
}

void add_clocks(const json& clocks, ResultTable* table) {
  if (!clocks.is_object()) return;
  add(table, "clock during the run", range(clocks, "sm_mhz_min", "sm_mhz_max", "MHz"));
  add(table, "highest temperature", with_unit(clocks, "temperature_c_max", "°C"));
  if (member(clocks, "throttled").is_boolean()) {
    const bool throttled = is_true(clocks, "throttled");
    const json& reasons = list(member(clocks, "reasons"));
    std::string text = throttled ? "yes" : "no";
    if (!reasons.empty()) text += ": " + value_text(reasons);
    add(table, "throttled", text, throttled ? Tone::kBad : Tone::kPlain);
  }
  add(table, "samples of clock and temperature", value_text(member(clocks, "samples")));
}

}  // namespace

std::vector<Figure> key_figures(const json& results) {
  std::vector<Figure> figures;
  for (const json& batch : list(member(results, "layers"))) {
    const std::string size = batch_text(batch);
    for (const json& ratio : list(member(batch, "step_ratios"))) {
      figures.push_back(speed_figure(results, ratio, "training step, batch " + size));
    }
  }
  // Where the layers were not asked for, the throughput tells of the same steps.
  if (figures.empty()) {
    for (const json& entry : list(member(results, "throughput"))) {
      const std::string size = batch_text(entry);
      for (const json& ratio : list(member(entry, "training_ratios"))) {
        figures.push_back(speed_figure(results, ratio, "training step, batch " + size));
      }
    }
  }
  if (const auto figure = error_figure(results)) figures.push_back(*figure);
  for (const json& difference : list(member(member(results, "training"), "differences"))) {
    if (!number_at(difference, "accuracy_mean_difference")) continue;
    figures.push_back(accuracy_figure(results, difference));
  }
  return figures;
}

ResultTable environment_table(const json& results) {
  ResultTable table{{{"what", false}, {"value", false}}, {}};
  add(&table, "date", text_at(results, "date"));
  if (const auto seconds = number_at(results, "seconds")) {
    add(&table, "time the comparison took", format_seconds(*seconds));
  }
  add(&table, "math", text_at(results, "math"));
  if (member(results, "quick").is_boolean()) {
    add(&table, "measured", is_true(results, "quick") ? "quickly (--quick)" : "in full");
    add(&table, "changed by --quick", left_out_text(results));
  }
  const json& environment = member(results, "environment");
  if (!environment.is_object()) return table;
  std::set<std::string> told = {"versions", "ceilings", "clocks", "load"};
  for (const auto& [key, name] : kEnvironmentNames) {
    const json& value = member(environment, key);
    told.insert(key);
    if (value.is_null()) continue;
    const bool bytes = value.is_number() && std::string(key) == "gpu_memory_bytes";
    add(&table, name, bytes ? format_size(value.get<double>()) : value_text(value));
  }
  for (const auto& [key, value] : environment.items()) {
    if (told.count(key) == 0 && !value.is_null()) add(&table, words(key), value_text(value));
  }
  for (const json& version : list(member(environment, "versions"))) {
    const json& name = element(version, 0);
    if (!name.is_string()) continue;
    add(&table, name.get<std::string>(), value_text(element(version, 1)));
  }
  const json& ceilings = member(environment, "ceilings");
  const std::string where = text_at(ceilings, "device");
  const std::string of = where.empty() ? "" : " (" + where + ", measured)";
  add(&table, "copy bandwidth" + of, with_unit(ceilings, "copy_gb_per_s", "GB/s"));
  add(&table, "fp32 peak" + of, with_unit(ceilings, "fp32_gflop_per_s", "GFLOP/s"));
  add(&table, "tf32 peak" + of, with_unit(ceilings, "tf32_gflop_per_s", "GFLOP/s"));
  add(&table, "empty launch" + of, with_unit(ceilings, "launch_us", "µs"));
  add_clocks(member(environment, "clocks"), &table);
  add_load(member(environment, "load"), &table);
  return table;
}

}  // namespace duet
