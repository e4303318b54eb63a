#include "compare/report/step_chart.h"

#include <gtest/gtest.h>

#include <fstream>
#include <regex>

#include "compare/results/results_json.h"
#include "compare/results_fixture.h"
#include "compare/tables/format.h"
#include "core/error.h"
#include "core/input_file.h"
#include "core/xml_text.h"
#include "support/text.h"
#include "test_paths.h"

namespace duet {
namespace {

using nlohmann::json;

struct DrawnBar {
  size_t arm;
  double y, width;
};

/// The bars, without the squares of the legend.
std::vector<DrawnBar> bars_of(const std::string& svg) {
  const std::regex bar(R"re(<rect class="arm(\d)" x="164" y="([0-9.]+)" width="([0-9.]+)")re");
  std::vector<DrawnBar> bars;
  for (std::sregex_iterator at(svg.begin(), svg.end(), bar), end; at != end; ++at) {
    bars.push_back({std::stoul((*at)[1]), std::stod((*at)[2]), std::stod((*at)[3])});
  }
  return bars;
}

/// The words of all texts of a class, in their order.
std::vector<std::string> texts_of(const std::string& svg, const std::string& style) {
  const std::regex text("<text class=\"" + style + "\"[^>]*>([^<]*)</text>");
  std::vector<std::string> texts;
  for (std::sregex_iterator at(svg.begin(), svg.end(), text), end; at != end; ++at) {
    texts.push_back((*at)[1]);
  }
  return texts;
}

/// The time of an arm in all passes of a layer, as the results have them.
double layer_us(const json& results, const std::string& layer, size_t arm) {
  double sum = 0;
  for (const json& row : results["layers"][0]["rows"]) {
    if (row["layer"] == layer) sum += row["arms"][arm]["us"]["median"].get<double>();
  }
  return sum;
}

TEST(StepChart, BarsAreAsLongAsTheTimes) {
  for (const size_t arms : {2u, 3u}) {
    const json results = results_fixture(arms);
    const std::string svg = step_chart_svg(results_from(results));
    const auto bars = bars_of(svg);
    const auto labels = texts_of(svg, "label end"), values = texts_of(svg, "value");
    ASSERT_EQ(bars.size(), arms * labels.size());
    ASSERT_EQ(values.size(), bars.size());
    const json& totals = results["layers"][0]["totals"];
    const double step_us = totals[0]["step_us"]["median"];
    EXPECT_EQ(labels[0], "the whole step");
    EXPECT_EQ(labels[1], "conv1+pool1+relu1");
    EXPECT_EQ(labels.size(), 7u);
    for (size_t i = 0; i < bars.size(); ++i) {
      const size_t arm = i % arms;
      const double us = i < arms ? totals[arm]["step_us"]["median"].get<double>()
                                 : layer_us(results, labels[i / arms], arm);
      EXPECT_EQ(bars[i].arm, arm);
      EXPECT_NEAR(bars[i].width / bars[0].width, us / step_us, 1e-4) << labels[i / arms];
      EXPECT_EQ(values[i], format_significant(us));
      if (i > 0) {
        EXPECT_GT(bars[i].y, bars[i - 1].y);
      }
    }
    const auto ratios = texts_of(svg, "ratio end");
    ASSERT_EQ(ratios.size(), arms == 2 ? labels.size() : 0u);
    if (arms != 2) continue;
    EXPECT_EQ(ratios[0], format_speedup(results["layers"][0]["step_ratios"][0]["speedup"]));
    EXPECT_EQ(ratios[1],
              format_speedup(layer_us(results, labels[1], 1) / layer_us(results, labels[1], 0)));
  }
}

TEST(StepChart, WhatIsWrongHasNoBar) {
  const std::string right = step_chart_svg(results_from(results_fixture()));
  const std::string wrong = step_chart_svg(results_from(mismatch_fixture()));
  EXPECT_EQ(texts_of(right, "wrong"), std::vector<std::string>());
  EXPECT_EQ(texts_of(wrong, "wrong"), std::vector<std::string>{"wrong"});
  EXPECT_EQ(bars_of(wrong).size() + 1, bars_of(right).size());
  EXPECT_EQ(texts_of(wrong, "ratio end").size() + 1, texts_of(right, "ratio end").size());
}

TEST(StepChart, WhatIsMissingHasNoBar) {
  json results = results_fixture();
  json& rows = results["layers"][0]["rows"];
  rows[3]["arms"][1]["us"] = nullptr;  // a pass of conv2+pool2+relu2
  const std::string svg = step_chart_svg(results_from(results));
  EXPECT_EQ(bars_of(svg).size(), 2 * 7 - 1u);
  const auto values = texts_of(svg, "value");
  EXPECT_EQ(values[2 * 2 + 1], kNotMeasured);

  results.erase("layers");
  EXPECT_THROW(step_chart_svg(results_from(results)), DataError);
}

TEST(StepChart, NamesAreText) {
  const std::string svg = step_chart_svg(results_from(nasty_fixture()));
  EXPECT_EQ(svg.find("<script"), std::string::npos);
  const auto labels = texts_of(svg, "label end");  // all layers have one name there
  ASSERT_EQ(labels.size(), 2u);
  EXPECT_EQ(labels[1], xml_text(shortened(kNastyText, 18)));
  EXPECT_EQ(shortened("größer", 4), "größ…");
  EXPECT_EQ(shortened("größe", 5), "größe");
}

// The picture at the top of README is what the program makes of the results beside it.
TEST(StepChart, ThePublishedPictureIsWhatTheResultsSay) {
  const std::string folder = DUET_SOURCE_DIR "/docs/results/", name = "fashion_mnist_cnn_batch64";
  const std::string readme = read_input_file(DUET_SOURCE_DIR "/README.md", 1 << 20);
  EXPECT_TRUE(has(readme, "](docs/results/" + name + ".svg)"));
  EXPECT_TRUE(read_input_file(folder + name + ".svg", 1 << 20) ==
              step_chart_svg(load_results(folder + name + ".json")))
      << "build/release/apps/compare --from docs/results/" << name << ".json --svg docs/results/"
      << name << ".svg";
}

}  // namespace
}  // namespace duet
