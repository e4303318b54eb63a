// What the report is made of: the files of compare/report/ and Chart.js, put into the library when
// it is built (cmake/DuetReport.cmake).
#pragma once

#include <string_view>

namespace duet {

extern const std::string_view kReportPage;     // report.html, with {{names}} for the rest
extern const std::string_view kReportStyle;    // the .css files
extern const std::string_view kReportScript;   // all of Duet's .js files, in order
extern const std::string_view kReportLicence;  // Chart.js's
extern const std::string_view kChartLibrary;   // Chart.js, or "" in a build without it

}  // namespace duet
