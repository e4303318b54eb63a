#include "compare/report/report.h"

#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <sstream>

#include "compare/report/report_parts.h"
#include "compare/results/results_json.h"
#include "compare/results_fixture.h"
#include "core/error.h"
#include "core/xml_text.h"
#include "support/text.h"
#include "test_paths.h"

namespace duet {
namespace {

using nlohmann::json;

class Report : public testing::Test {
 protected:
  void SetUp() override {
    if (!report_available()) GTEST_SKIP() << "needs a build with Chart.js (libjs-chart.js)";
  }
};

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// What the page's own script reads.
json data_of(const std::string& page) {
  const std::string start = "<script type=\"application/json\" id=\"results\">";
  const size_t from = page.find(start) + start.size();
  return json::parse(page.substr(from, page.find("</script>", from) - from));
}

std::string file(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(std::string(DUET_SOURCE_DIR) + "/framework/compare/report/" + path).rdbuf();
  EXPECT_GT(text.str().size(), 200u) << path;
  return text.str();
}

TEST(ReportParts, AreTheFiles) {
  EXPECT_EQ(kReportPage, file("page.html"));
  EXPECT_EQ(kReportStyle, file("report.css") + file("print.css"));
  EXPECT_EQ(kReportScript, file("page.js") + file("charts.js"));
  EXPECT_EQ(kComparisonSections, file("comparison.html"));
  EXPECT_EQ(kComparisonScript,
            file("layer_charts.js") + file("run_charts.js") + file("comparison.js"));
  EXPECT_EQ(kTrainingSections, file("training.html"));
  EXPECT_EQ(kTrainingScript, file("training.js"));
  EXPECT_EQ(kReportLicence, file("chart_js_licence.txt"));
}

TEST(ReportParts, WithoutChartLibrarySayWhatToDo) {
  EXPECT_TRUE(has(error_of<RunError>([] { report_html(Results(), ""); }), "--out", "--from",
                  "libjs-chart.js"));
}

TEST_F(Report, HoldsTheResultsAndTheLibrary) {
  const Results results = results_from(results_fixture());
  const std::string page = report_html(results);
  EXPECT_EQ(data_of(page)["results"], to_json(results));
  EXPECT_TRUE(has(page, kChartLibrary, "<title>test_data</title>",
                  "Permission is hereby granted, free of charge"));
  EXPECT_EQ(report_html(results, "/* library */").find("{{"), std::string::npos)
      << "a part was not filled in";
}

TEST_F(Report, TellsThatTheRunWasStopped) {
  Results results = results_from(results_fixture());
  EXPECT_EQ(data_of(report_html(results))["tables"]["stopped"], "");
  results.stopped = "interrupted";
  EXPECT_EQ(data_of(report_html(results))["tables"]["stopped"],
            "interrupted; what had not been measured by then is missing");
}

TEST_F(Report, NamesAreText) {
  const Results results = results_from(nasty_fixture());
  const std::string plain = report_html(results_from(results_fixture()));
  const std::string page = report_html(results);
  EXPECT_EQ(data_of(page)["results"], to_json(results));
  // Not one more tag than where names are harmless.
  for (const char* tag : {"<script", "</script", "<!--", "<img", "onerror="}) {
    const std::string outside_data =
        page.substr(0, page.find("id=\"results\"")) +
        page.substr(page.find("</script>", page.find("id=\"results\"")));
    const size_t allowed = std::string(tag) == "onerror=" ? 2 : 0;  // as words of title and h1
    EXPECT_EQ(count(outside_data, tag), count(plain, tag) + allowed) << tag;
  }
  const std::string title = page.substr(0, page.find("</title>"));
  EXPECT_TRUE(has(title, "&lt;/script&gt;&lt;script&gt;alert(1)", "&quot; &#39; &amp;"));
  EXPECT_NE(title.find("{{results}}"), std::string::npos) << "names are not filled in again";
}

TEST_F(Report, EscapesScriptsAndHtml) {
  EXPECT_EQ(xml_text("<a href=\"x\">'&'</a>"),
            "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;");
  const json value = {{"</script>", "<!-- & -->"}, {"bad UTF-8", "\xff"}};
  const std::string text = script_json(value);
  EXPECT_EQ(text.find_first_of("<>&"), std::string::npos) << text;
  EXPECT_EQ(json::parse(text)["</script>"], "<!-- & -->");
}

// Whatever a page can load from elsewhere, in all of the file but the library and the data.
TEST_F(Report, AsksTheNetworkForNothing) {
  std::string page = report_html(results_from(results_fixture()));
  page.erase(page.find(kChartLibrary), kChartLibrary.size());
  EXPECT_FALSE(std::regex_search(page, std::regex("https?://|\"//")));
  EXPECT_FALSE(std::regex_search(
      page, std::regex("\\bsrc\\s*=|<link|@import|url\\(|\\bimport\\b|fetch\\(|XMLHttpRequest|"
                       "<iframe|<object|<embed|WebSocket|sendBeacon")));
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos) << "the browser forbids it too";
}

TEST_F(Report, AnySectionMayBeMissing) {
  const json whole = results_fixture();
  for (const auto& [key, value] : whole.items()) {
    if (key == "arms") continue;
    json results = whole;
    results[key] = nullptr;
    EXPECT_NO_THROW(report_html(results_from(results))) << key;
    results.erase(key);
    EXPECT_NO_THROW(report_html(results_from(results))) << key;
  }
  EXPECT_NO_THROW(report_html(Results()));
}

TEST_F(Report, ThreeArms) {
  const json data = data_of(report_html(results_from(results_fixture(3))))["tables"];
  EXPECT_EQ(data["arms"], json({"custom", "cudnn", "other3"}));
  EXPECT_EQ(data["networks"].size(), 3u);
  const json& columns = data["layers"][0]["layers"]["columns"];
  // Layer, pass, three times, floor, three shares, two pairs of speedup and verdict.
  EXPECT_EQ(columns.size(), 2u + 3 + 1 + 3 + 4);
  for (const json& row : data["layers"][0]["layers"]["rows"]) EXPECT_EQ(row.size(), columns.size());
}

}  // namespace
}  // namespace duet
