// What reports are made of: the files of compare/report/ and Chart.js, put into the library when
// it is built (cmake/DuetReport.cmake).
#pragma once

#include <string_view>

namespace duet {

// Of every page: page.html, with {{names}} for the rest, the .css files, and elements and charts.
extern const std::string_view kReportPage, kReportStyle, kReportScript;
// Of a comparison, and of a training.
extern const std::string_view kComparisonSections, kComparisonScript;
extern const std::string_view kTrainingSections, kTrainingScript;
extern const std::string_view kReportLicence;  // Chart.js's
extern const std::string_view kChartLibrary;   // Chart.js, or "" in a build without it

}  // namespace duet
