// What bench measured, as text.
#pragma once

#include <string>

#include "compare/results/results.h"
#include "compare/tables/result_table.h"

namespace duet {

/// One row of the results: the problem and its floor, the table sorted by time, below it what is
/// wrong and what cannot do it, and the command that measures it again.
std::string bench_row_text(const BenchRow& row);
/// "n=64,c=1,..." of a row's command.
std::string shape_of(const BenchRow& row);
/// The implementations of several rows, in the order in which they first come.
std::vector<std::string> ids_of(const std::vector<const BenchRow*>& rows);
/// Of problems of one layer type a table for each pass, if there are several problems: the times
/// of all implementations by problem. "" if there are none.
std::string bench_scan_text(const BenchResults& results);
/// Where, when and by which command: "NVIDIA H200, driver 570.1, ..., Duet 0.1.0 (abc), 2026-11-21:
/// `bench ...`".
std::string measured_on_text(const BenchResults& results);
/// The machine and the versions alone.
std::string machine_text(const BenchResults& results);
/// One line: everything that was wrong in all rows, or "" if nothing was.
std::string bench_faults_text(const BenchResults& results);

}  // namespace duet
