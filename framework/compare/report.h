// Results of compare as a page for a browser: one file that opens from disk and needs no network.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "compare/results.h"

namespace duet {

/// Whether this build holds the chart library that the report needs.
bool report_available();

/// The page: verdicts, charts and tables, light and dark, for screen, phone and paper. Any part of
/// the results may be missing, and there may be any number of arms. Throws RunError without the
/// chart library.
std::string report_html(const Results& results);
/// The same with a chart library of the caller's; "" is none.
std::string report_html(const Results& results, std::string_view chart_library);

/// The text as it reads in HTML, in an element or an attribute.
std::string html_text(const std::string& text);
/// JSON that may stand in a <script> element: nothing in it can end the element or start a tag.
std::string script_json(const nlohmann::json& value);

}  // namespace duet
