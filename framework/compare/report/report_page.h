// A page for a browser: one file that opens from disk and needs no network.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace duet {

struct ReportPage {
  std::string kind, title;
  std::string_view sections;  // HTML, behind the summary; what they show is the script's to add
  std::string_view script;    // behind page.js and charts.js
  nlohmann::json data;        // for the script, in the element "results"
  std::string elsewhere;      // how to get the page from a build with the chart library: a sentence
};

/// Whether this build holds the chart library that pages need.
bool report_available();

/// The page, light and dark, for screen, phone and paper. Throws RunError without the chart
/// library.
std::string page_html(const ReportPage& page);
/// The same with a chart library of the caller's; "" is none.
std::string page_html(const ReportPage& page, std::string_view chart_library);

/// JSON that may stand in a <script> element: nothing in it can end the element or start a tag.
std::string script_json(const nlohmann::json& value);

}  // namespace duet
