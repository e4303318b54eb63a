#include "compare/tables/table_cells.h"

#include <algorithm>

#include "core/number_text.h"
#include "net/table.h"

namespace duet {

std::vector<RowPart> arms_of(const Results& results, const LayersSection& batch) {
  std::vector<RowPart> parts;
  for (const ComparedRow& row : batch.rows) {
    for (size_t i = 0; i < row.arms.size(); ++i) {
      if (!row.arm(i)) continue;
      parts.push_back({&row, row.layer, row.pass, i, results.arm_name(i), row.arm(i)});
    }
  }
  return parts;
}

std::vector<RowPart> tensors_of(const Results& results, const LayersSection& batch) {
  std::vector<RowPart> parts;
  for (RowPart part : arms_of(results, batch)) {
    for (const TensorError& tensor : part.arm->tensors) {
      part.tensor = &tensor;
      parts.push_back(part);
    }
  }
  return parts;
}

void add_pairs(const ArmRatios& ratios, std::set<ArmPair>* pairs) {
  for (const ArmRatio& ratio : ratios) pairs->insert({ratio.a, ratio.b});
}

const ArmRatio* ratio_of(const ArmRatios& ratios, const ArmPair& pair) {
  const auto found = std::find_if(ratios.begin(), ratios.end(), [&](const ArmRatio& ratio) {
    return ratio.a == pair.first && ratio.b == pair.second;
  });
  return found == ratios.end() ? nullptr : &*found;
}

std::string interval_text(double low, double high) {
  return std::isnan(low) || std::isnan(high) ? kNotMeasured : format_interval(low, high);
}

std::string spread_of_same_code(const ArmRatio& ratio) {
  if (!ratio.spread || std::isnan(ratio.spread->first) || std::isnan(ratio.spread->second)) {
    return "";
  }
  return format_interval(ratio.spread->first, ratio.spread->second);
}

std::string ratio_text(const ArmRatio& ratio) {
  const std::string spread = spread_of_same_code(ratio);
  if (!spread.empty()) return "spread " + spread;
  const std::string text = shown(ratio.speedup, format_speedup);
  const std::string interval = interval_text(ratio.low, ratio.high);
  return interval == kNotMeasured ? text : text + " (" + interval + ")";
}

Cell verdict_cell(const std::string& verdict) {
  if (verdict == "faster") return {verdict, Tone::kGood};
  if (verdict == "slower" || verdict == "different" || verdict == "diverged") {
    return {verdict, Tone::kBad};
  }
  return {verdict.empty() ? kNotMeasured : verdict};
}

std::string spread(const Timing& time) {
  if (std::isnan(time.p20) || std::isnan(time.p80)) return kNotMeasured;
  return format_significant(time.p20) + " to " + format_significant(time.p80);
}

std::string spread_of(const MeasuredArm& arm) { return spread(arm.us); }

std::string implementation_text(const MeasuredArm& arm) {
  if (arm.implementation.empty()) return kNotMeasured;
  return arm.implementation + (arm.shared ? " (shared)" : "");
}

std::string stopped_text(const Results& results) {
  return results.stopped.empty()
             ? ""
             : results.stopped + "; what had not been measured by then is missing";
}

std::string batch_text(const Count& batch) {
  return std::isnan(batch) ? kNotMeasured : std::to_string(static_cast<int64_t>(batch.value));
}

std::string format_size(double bytes) {
  if (!(bytes >= 0) || bytes > 1e18) return format_significant(bytes);
  return format_bytes(static_cast<size_t>(bytes));
}

std::string format_value(double value) { return printed("%.5g", value); }

}  // namespace duet
