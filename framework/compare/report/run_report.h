// A training as a page for a browser: its curves, classes, network and machine.
#pragma once

#include <filesystem>
#include <string>

#include "compare/results/run_record.h"

namespace duet {

/// Throws RunError in a build without the chart library.
std::string run_report_html(const RunRecord& run);

struct RunReportOptions {
  std::string run;  // its folder
  std::string out;  // empty: report.html in it
};

/// Writes the page and logs where it is. Throws ConfigError, DataError (read_run()) or RunError.
void run_report(const RunReportOptions& options);

}  // namespace duet
