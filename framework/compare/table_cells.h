// Cells that several tables of results have.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compare/result_tables.h"

namespace duet {

/// The places of two arms, of which the first is compared with the second.
using ArmPair = std::pair<size_t, size_t>;

/// Adds the pairs that `ratios` compare.
void add_pairs(const nlohmann::json& ratios, std::set<ArmPair>* pairs);
/// Speedup with its interval, and verdict, for each pair.
void add_ratio_columns(const nlohmann::json& results, const std::set<ArmPair>& pairs,
                       ResultTable* table);
void add_ratio_cells(const nlohmann::json& ratios, const std::set<ArmPair>& pairs,
                     std::vector<Cell>* cells);
/// "2.11x (2.08 to 2.13)", or of the same code "spread 0.98 to 1.03"
std::string ratio_text(const nlohmann::json& ratio);
/// "faster" is good and "slower" is bad; "same" and "unclear" are neither.
Cell verdict_cell(const nlohmann::json& ratio);
/// "12.1 to 12.6" of {"median", "p20", "p80"}.
std::string spread(const nlohmann::json& time);
/// The batch size: "1024".
std::string batch_text(const nlohmann::json& entry);
/// Bytes as people read them.
std::string format_size(double bytes);
/// A single element of a tensor: five significant digits.
std::string format_value(double value);

}  // namespace duet
