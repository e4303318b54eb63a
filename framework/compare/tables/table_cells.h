// Cells that several tables of results have.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compare/results/results.h"
#include "compare/tables/format.h"
#include "compare/tables/result_table.h"

namespace duet {

/// An arm that has the layer of a row, and perhaps one of its tensors.
struct RowPart {
  const ComparedRow* row;
  std::string layer, pass;
  size_t index;
  std::string arm_name;
  const MeasuredArm* arm;
  const TensorError* tensor = nullptr;
};
std::vector<RowPart> arms_of(const Results& results, const LayersSection& batch);
std::vector<RowPart> tensors_of(const Results& results, const LayersSection& batch);

/// A member or function of what `arm` or `tensor` of a table's row points to.
auto of_arm(auto of) {
  return [of](const auto& row) { return std::invoke(of, *row.arm); };
}
auto of_tensor(auto of) {
  return [of](const auto& row) { return std::invoke(of, *row.tensor); };
}

/// The places of two arms, of which the first is compared with the second.
using ArmPair = std::pair<size_t, size_t>;

/// Adds the pairs that `ratios` compare.
void add_pairs(const ArmRatios& ratios, std::set<ArmPair>* pairs);
/// Speedup with its interval, and verdict, for each pair; `ratios` of a row.
template <class Row, class Ratios>
void add_ratio_columns(const Results& results, const std::set<ArmPair>& pairs, Ratios ratios,
                       TableOf<Row>* table);
/// The ratio of that pair, or nullptr.
const ArmRatio* ratio_of(const ArmRatios& ratios, const ArmPair& pair);

/// "2.08 to 2.13", or "-"
std::string interval_text(double low, double high);
/// Of the ratio of arms of the same code how far their times lie about their median, "0.98 to
/// 1.03"; of any other ratio "".
std::string spread_of_same_code(const ArmRatio& ratio);
/// "2.11x (2.08 to 2.13)", or of the same code "spread 0.98 to 1.03"
std::string ratio_text(const ArmRatio& ratio);
/// "faster" is good and "slower" is bad; "same" and "unclear" are neither.
Cell verdict_cell(const std::string& verdict);
/// "12.1 to 12.6", or "-"
std::string spread(const Timing& time);
std::string spread_of(const MeasuredArm& arm);
/// "custom_direct", "cpu_dropout (shared)"
std::string implementation_text(const MeasuredArm& arm);
/// That the measurement did not come to its end, and why; empty if it did.
std::string stopped_text(const Results& results);
/// The batch size: "1024".
std::string batch_text(const Count& batch);
/// Bytes as people read them.
std::string format_size(double bytes);
/// A single element of a tensor: five significant digits.
std::string format_value(double value);

template <class Row, class Ratios>
void add_ratio_columns(const Results& results, const std::set<ArmPair>& pairs, Ratios ratios,
                       TableOf<Row>* table) {
  for (const ArmPair& pair : pairs) {
    table->numbers(results.arm_name(pair.first) + " against " + results.arm_name(pair.second),
                   [&](const Row& row) {
                     const ArmRatio* ratio = ratio_of(std::invoke(ratios, row), pair);
                     return ratio ? ratio_text(*ratio) : kNotMeasured;
                   });
    table->words("verdict", [&](const Row& row) {
      const ArmRatio* ratio = ratio_of(std::invoke(ratios, row), pair);
      return ratio ? verdict_cell(ratio->verdict) : Cell{kNotMeasured};
    });
  }
}

}  // namespace duet
