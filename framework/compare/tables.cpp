#include "compare/tables.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "compare/fields.h"
#include "compare/format.h"
#include "compare/table_cells.h"
#include "compare/text_table.h"
#include "core/config.h"
#include "net/table.h"

namespace duet {

using nlohmann::json;

namespace {

// Columns whose header starts with '<' hold words, the others numbers.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) {
    for (std::string& name : header) {
      const bool number = !name.starts_with("<");
      table_.columns.push_back({number ? name : name.substr(1), number});
    }
  }
  void add(std::vector<std::string> row) {
    auto& cells = table_.rows.emplace_back();
    for (std::string& text : row) cells.push_back({std::move(text)});
    cells.resize(table_.columns.size());
  }
  bool empty() const { return table_.rows.empty(); }
  std::string text() const { return table_text(table_); }

 private:
  ResultTable table_;
};

const json& ratio_against(const json& ratios, size_t b) {
  static const json null;
  for (const json& ratio : list(ratios)) {
    if (number_at(ratio, "a") == 0.0 && number_at(ratio, "b") == static_cast<double>(b)) {
      return ratio;
    }
  }
  return null;
}

// Speedup and verdict of the first arm against each other one. The interval stands beside a single
// pair alone, to save width.
void add_ratio_columns(const json& results, std::vector<std::string>* header) {
  const size_t arms = arm_count(results);
  if (arms == 2) header->insert(header->end(), {"ratio", "95%", "<verdict"});
  if (arms == 2) return;
  for (size_t b = 1; b < arms; ++b) {
    header->insert(header->end(), {"to " + arm_name(results, b), "<verdict"});
  }
}

void add_ratio_cells(const json& results, const json& ratios, std::vector<std::string>* row) {
  for (size_t b = 1; b < arm_count(results); ++b) {
    const json& ratio = ratio_against(ratios, b);
    row->push_back(shown(number_at(ratio, "speedup"), format_speedup));
    if (arm_count(results) == 2) {
      const auto low = number_at(ratio, "low"), high = number_at(ratio, "high");
      row->push_back(low && high ? format_interval(*low, *high) : kNotMeasured);
    }
    row->push_back(ratio.is_object() ? text_at(ratio, "verdict") : kNotMeasured);
  }
}

// ---- sections ----

// How near to its limit the worst tensor of an arm is.
std::string worst_share(const json& arm) {
  std::optional<double> worst;
  for (const json& tensor : list(member(arm, "tensors"))) {
    const auto share = number_at(tensor, "share_of_limit");
    if (share && (!worst || *share > *worst)) worst = share;
  }
  const json& agrees = member(arm, "agrees");
  if (agrees.is_boolean() && !agrees.get<bool>()) return "WRONG";
  return shown(worst, format_share);
}

std::string implementation(const json& arm) {
  const std::string id = text_at(arm, "implementation");
  if (id.empty()) return kNotMeasured;
  return is_true(arm, "shared") ? id + " (shared)" : id;
}

std::string layers_text(const json& results, const json& batch) {
  std::string text;
  for (const json& row : list(member(batch, "rows"))) {
    for (const json& arm : list(member(row, "arms"))) {
      for (const json& fault : list(member(arm, "faults"))) {
        text += "WRONG: " + text_at(row, "layer") + " " + text_at(row, "pass") + " " +
                implementation(arm) + ": " + text_at(fault, "text") + "\n";
      }
    }
  }
  // Times of all arms beside each other; then how near each is to the machine's limits, and to its
  // own limit of error.
  std::vector<std::string> header = {"<layer", "<pass"};
  const size_t arms = arm_count(results);
  for (size_t i = 0; i < arms; ++i) header.push_back(arm_name(results, i) + " us");
  add_ratio_columns(results, &header);
  header.push_back("floor us");
  TextTable times(header);
  TextTable rates({"<layer", "<pass", "<arm", "us", "p20", "p80", "cold us", "in net us", "GFLOP/s",
                   "GB/s", "of floor"});
  TextTable details(
      {"<layer", "<pass", "<arm", "<implementation", "error, of limit", "workspace", "<detail"});
  for (const json& row : list(member(batch, "rows"))) {
    const std::string layer = text_at(row, "layer"), pass = text_at(row, "pass");
    std::vector<std::string> cells = {layer, pass};
    bool told = false;
    for (size_t i = 0; i < arms; ++i) {
      const json& arm = element(member(row, "arms"), i);
      const std::string us = shown(number_at(member(arm, "us"), "median"), format_significant);
      cells.push_back(us);
      if (arm.is_null()) continue;
      const json& warm = member(arm, "us");
      const std::string layer_once = told ? "" : layer, pass_once = told ? "" : pass;
      told = true;
      rates.add({layer_once, pass_once, arm_name(results, i), us,
                 shown(number_at(warm, "p20"), format_significant),
                 shown(number_at(warm, "p80"), format_significant),
                 shown(number_at(member(arm, "cold_us"), "median"), format_significant),
                 shown(number_at(arm, "in_network_us"), format_significant),
                 shown(number_at(arm, "gflop_per_s"), format_significant),
                 shown(number_at(arm, "gb_per_s"), format_significant),
                 shown(number_at(arm, "share_of_floor"), format_share)});
      if (!member(arm, "tensors").is_array()) continue;  // the gather, the update
      details.add({layer_once, pass_once, arm_name(results, i), implementation(arm),
                   worst_share(arm), shown(number_at(arm, "workspace_bytes"), format_size),
                   text_at(arm, "detail")});
    }
    add_ratio_cells(results, member(row, "ratios"), &cells);
    cells.push_back(shown(number_at(row, "floor_us"), format_significant));
    times.add(std::move(cells));
  }
  if (!times.empty()) text += times.text() + "\n" + rates.text() + "\n" + details.text();
  return text;
}

std::string totals_text(const json& results, const json& batch) {
  std::vector<std::string> header = {"<arm",   "step us", "sum us", "in net us",
                                     "gap us", "prepare", "memory"};
  TextTable table(header);
  for (const json& total : list(member(batch, "totals"))) {
    table.add({arm_of(results, total),
               shown(number_at(member(total, "step_us"), "median"), format_significant),
               shown(number_at(total, "sum_us"), format_significant),
               shown(number_at(total, "in_network_sum_us"), format_significant),
               shown(number_at(total, "gap_us"), format_significant),
               shown(number_at(total, "prepare_s"), format_seconds),
               shown(number_at(total, "memory_bytes"), format_size)});
  }
  return table.empty() ? "" : table.text();
}

std::string values_text(const json& values, std::string (*format)(double), double scale = 1) {
  std::string text;
  for (const json& value : list(values)) {
    const auto found = number(value);
    text += (text.empty() ? "" : " ") + (found ? format(*found * scale) : kNotMeasured);
  }
  return text;
}

std::string two_decimals(double value) {
  std::string text = format_accuracy(value);
  text.pop_back();
  return text;
}

std::string training_text(const json& results) {
  const json& training = member(results, "training");
  const json& arms = list(member(training, "arms"));
  if (arms.empty()) return "";
  TextTable table({"<arm", "step us", "images/s", "memory", "prepare", "first loss", "last loss",
                   "<accuracy by seed, %"});
  for (const json& arm : arms) {
    const json& loss = list(member(arm, "loss"));
    table.add({arm_of(results, arm), shown(number_at(arm, "step_us"), format_significant),
               shown(number_at(arm, "images_per_second"), format_whole),
               shown(number_at(arm, "peak_memory_bytes"), format_size),
               shown(number_at(arm, "prepare_s"), format_seconds),
               shown(number(element(loss, 0)), format_significant),
               shown(number(element(loss, loss.size() - 1)), format_significant),
               values_text(member(arm, "accuracy"), two_decimals)});
  }
  std::string text = table.text();
  TextTable pairs({"<arms", "loss apart, first 10", "of the loss", "at the end",
                   "accuracy apart, points", "95%", "<verdict"});
  for (const json& d : list(member(training, "differences"))) {
    const json& loss = list(member(d, "loss"));
    const auto points = [&](const char* key) {
      const auto value = number_at(d, key);
      return value ? two_decimals(*value) : std::string(kNotMeasured);
    };
    pairs.add({arm_of(results, d, "a") + " - " + arm_of(results, d, "b"),
               shown(number_at(d, "first_10_max"), format_error),
               shown(number_at(d, "first_10_share"), format_share),
               shown(number(element(loss, loss.size() - 1)), format_error),
               points("accuracy_mean_difference"),
               number_at(d, "low") ? points("low") + " to " + points("high") : kNotMeasured,
               text_at(d, "verdict")});
  }
  return pairs.empty() ? text : text + "\n" + pairs.text();
}

std::string throughput_text(const json& results, const std::string& what) {
  std::vector<std::string> header = {"batch"};
  const size_t arms = arm_count(results);
  for (size_t i = 0; i < arms; ++i) {
    header.push_back(arm_name(results, i) + " us");
    header.push_back("images/s");
  }
  add_ratio_columns(results, &header);
  TextTable table(header);
  for (const json& row : list(member(results, "throughput"))) {
    const std::string batch = shown(number_at(row, "batch"), format_whole);
    std::vector<std::string> cells = {batch};
    for (size_t i = 0; i < arms; ++i) {
      const json& arm = element(member(row, "arms"), i);
      cells.push_back(shown(number_at(member(arm, what + "_us"), "median"), format_significant));
      cells.push_back(shown(number_at(arm, what + "_images_per_s"), format_whole));
    }
    add_ratio_cells(results, member(row, what + "_ratios"), &cells);
    table.add(std::move(cells));
  }
  return table.empty() ? "" : table.text();
}

// Why rows of throughput are empty: the first line of each arm's reason.
std::string missing_text(const json& results) {
  std::string text;
  for (const json& row : list(member(results, "throughput"))) {
    const json& arms = list(member(row, "arms"));
    for (size_t i = 0; i < arms.size(); ++i) {
      const std::string error = text_at(arms[i], "error");
      if (error.empty()) continue;
      const size_t end = error.find('\n');
      text += "batch " + shown(number_at(row, "batch"), format_whole) + ", " +
              arm_name(results, i) + ": " + error.substr(0, end) +
              (end == std::string::npos ? "" : " ...") + "\n";
    }
  }
  return text;
}

std::string about(const json& results) {
  const json& environment = member(results, "environment");
  std::string gpu = text_at(environment, "gpu");
  std::vector<std::string> parts;
  for (size_t i = 0; i < arm_count(results); ++i) parts.push_back(arm_name(results, i));
  std::string text = text_at(results, "name") + ": " + join(parts, " against ");
  const std::string math = text_at(results, "math");
  if (!math.empty()) text += ", " + math;
  const std::string where = gpu.empty() ? text_at(environment, "cpu") : gpu;
  if (!where.empty()) text += ", " + where;
  if (is_true(results, "quick")) text += ", quick";
  return text + "\n";
}

}  // namespace

std::string results_text(const json& results) {
  std::string text = stopped_text(results);
  if (!text.empty()) text = "STOPPED before its end: " + text + "\n";
  const json& summary = member(results, "summary");
  const json& first = member(summary, "first_mismatch");
  if (first.is_object()) {
    std::string where = text_at(first, "layer");
    if (!where.empty()) where += " " + text_at(first, "pass") + ", ";
    text +=
        "MISMATCH first in " + where + text_at(first, "arm") + ": " + text_at(first, "text") + "\n";
  }
  for (const json& line : list(member(summary, "headlines"))) {
    if (line.is_string()) text += line.get<std::string>() + "\n";
  }
  text += about(results);
  for (const json& part : list(member(results, "left_out"))) {
    if (part.is_string()) text += "--quick: " + part.get<std::string>() + "\n";
  }
  const auto section = [&](const std::string& title, const std::string& body) {
    if (!body.empty()) text += "\n" + title + "\n" + body;
  };
  for (const json& batch : list(member(results, "layers"))) {
    const std::string of = ", batch " + shown(number_at(batch, "batch"), format_whole);
    section("layers" + of, layers_text(results, batch));
    section("the whole step" + of, totals_text(results, batch));
  }
  const json& training = member(results, "training");
  section("training, batch " + shown(number_at(training, "batch"), format_whole) + ", epochs " +
              shown(number_at(training, "epochs"), format_whole),
          training_text(results));
  section("throughput in training", throughput_text(results, "training"));
  section("throughput in inference", throughput_text(results, "inference"));
  section("not measured", missing_text(results));
  const auto seconds = number_at(results, "seconds");
  if (seconds) text += "\nmeasured in " + format_seconds(*seconds) + "\n";
  return text;
}

}  // namespace duet
