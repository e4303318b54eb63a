#include "compare/table_cells.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "compare/fields.h"
#include "compare/format.h"
#include "net/table.h"

namespace duet {

using nlohmann::json;

namespace {

std::optional<ArmPair> pair_of(const json& ratio) {
  const auto a = count_at(ratio, "a"), b = count_at(ratio, "b");
  if (!a || !b) return std::nullopt;
  return ArmPair{*a, *b};
}

}  // namespace

void add_pairs(const json& ratios, std::set<ArmPair>* pairs) {
  for (const json& ratio : list(ratios)) {
    if (const auto pair = pair_of(ratio)) pairs->insert(*pair);
  }
}

void add_ratio_columns(const json& results, const std::set<ArmPair>& pairs, ResultTable* table) {
  for (const auto& [a, b] : pairs) {
    table->columns.push_back({arm_name(results, a) + " against " + arm_name(results, b)});
    table->columns.push_back({"verdict", false});
  }
}

void add_ratio_cells(const json& ratios, const std::set<ArmPair>& pairs, std::vector<Cell>* cells) {
  for (const ArmPair& pair : pairs) {
    const json& all = list(ratios);
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const json& ratio) { return pair_of(ratio) == pair; });
    if (found == all.end()) {
      cells->insert(cells->end(), {{kNotMeasured}, {kNotMeasured}});
    } else {
      cells->insert(cells->end(), {{ratio_text(*found)}, verdict_cell(*found)});
    }
  }
}

std::string ratio_text(const json& ratio) {
  const std::string spread = spread_of_same_code(ratio);
  if (!spread.empty()) return "spread " + spread;
  const auto low = number_at(ratio, "low"), high = number_at(ratio, "high");
  std::string text = shown(number_at(ratio, "speedup"), format_speedup);
  if (low && high) text += " (" + format_interval(*low, *high) + ")";
  return text;
}

Cell verdict_cell(const json& ratio) {
  const std::string verdict = text_at(ratio, "verdict");
  if (verdict == "faster") return {verdict, Tone::kGood};
  if (verdict == "slower" || verdict == "different" || verdict == "diverged") {
    return {verdict, Tone::kBad};
  }
  return {verdict.empty() ? kNotMeasured : verdict};
}

std::string spread(const json& time) {
  const auto p20 = number_at(time, "p20"), p80 = number_at(time, "p80");
  if (!p20 || !p80) return kNotMeasured;
  return format_significant(*p20) + " to " + format_significant(*p80);
}

std::string batch_text(const json& entry) {
  const auto batch = count_at(entry, "batch");
  return batch ? std::to_string(*batch) : kNotMeasured;
}

std::string format_size(double bytes) {
  if (!(bytes >= 0) || bytes > 1e18) return format_significant(bytes);
  return format_bytes(static_cast<size_t>(bytes));
}

std::string format_value(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.5g", value);
  return text;
}

}  // namespace duet
