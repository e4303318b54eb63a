// What bench measured, as text: from rows of its results alone.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "compare/result_tables.h"

namespace duet {

/// One row of the results: the problem and its floor, the table sorted by time, below it what is
/// wrong and what cannot do it, and the command that measures it again.
std::string bench_row_text(const nlohmann::json& row);
/// The table of it.
ResultTable bench_row_table(const nlohmann::json& row);
/// "n=64,c=1,..." of a row's command.
std::string shape_of(const nlohmann::json& row);
/// Of problems of one layer type a table for each pass, if there are several problems: the times
/// of all implementations by problem. "" if there are none.
std::string bench_scan_text(const nlohmann::json& results);
/// One line: everything that was wrong in all rows, or "" if nothing was.
std::string bench_faults_text(const nlohmann::json& results);

}  // namespace duet
