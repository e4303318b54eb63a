// Results of compare as a page for a browser.
#pragma once

#include <string>
#include <string_view>

#include "compare/report/report_page.h"
#include "compare/results/results.h"

namespace duet {

/// The page: verdicts, charts and tables, light and dark, for screen, phone and paper. Any part of
/// the results may be missing, and there may be any number of arms. Throws RunError without the
/// chart library.
std::string report_html(const Results& results);
/// The same with a chart library of the caller's; "" is none.
std::string report_html(const Results& results, std::string_view chart_library);

}  // namespace duet
