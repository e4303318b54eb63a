#include "compare/report/report_page.h"

#include <map>
#include <vector>

#include "compare/report/report_parts.h"
#include "core/error.h"
#include "core/xml_text.h"
#include "net/table.h"

namespace duet {
namespace {

// Replaces each {{name}} of the page, once: what is put in is not looked at again.
std::string fill(std::string_view page, const std::map<std::string, std::string>& parts) {
  std::string text;
  while (true) {
    const size_t start = page.find("{{");
    if (start == std::string_view::npos) break;
    const size_t end = page.find("}}", start);
    const std::string name(page.substr(start + 2, end - start - 2));
    text += page.substr(0, start);
    text += parts.at(name);
    page.remove_prefix(end + 2);
  }
  return text + std::string(page);
}

// `text` with each letter of `letters` replaced by its `escapes`.
std::string escape(const std::string& text, std::string_view letters,
                   const std::vector<std::string>& escapes) {
  std::string escaped;
  for (const char letter : text) {
    const size_t place = letters.find(letter);
    escaped += place == std::string_view::npos ? std::string(1, letter) : escapes[place];
  }
  return escaped;
}

}  // namespace

bool report_available() { return !kChartLibrary.empty(); }

// In JSON these letters stand only within strings, where an escape means the same.
std::string script_json(const nlohmann::json& value) {
  return escape(json_text(value), "<>&", {"\\u003c", "\\u003e", "\\u0026"});
}

std::string page_html(const ReportPage& page) { return page_html(page, kChartLibrary); }

std::string page_html(const ReportPage& page, std::string_view chart_library) {
  if (chart_library.empty()) {
    throw RunError("this build has no chart library, so it cannot write a report. " +
                   page.elsewhere +
                   " Or install Chart.js 3 here (Debian, Ubuntu: apt-get install libjs-chart.js), "
                   "configure again and build.");
  }
  return fill(kReportPage, {{"kind", xml_text(page.kind)},
                            {"title", xml_text(page.title)},
                            {"style", std::string(kReportStyle)},
                            {"sections", std::string(page.sections)},
                            {"results", script_json(page.data)},
                            {"licence", std::string(kReportLicence)},
                            {"chart_library", std::string(chart_library)},
                            {"script", std::string(kReportScript) + std::string(page.script)}});
}

}  // namespace duet
