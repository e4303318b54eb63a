#include "core/number_text.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "compare/tables/format.h"
#include "core/config.h"
#include "layers/layer_cases.h"
#include "net/table.h"
#include "net/yaml.h"
#include "support/comma_locale.h"
#include "support/layer_driver.h"
#include "support/text.h"
#include "support/trainer_process.h"

namespace duet {
namespace {

TEST(NumberText, IsOfNoLocale) {
  const CommaLocale locale;
  if (!locale.is_complete()) GTEST_SKIP() << "the C library is not glibc";
  char other[8];
  std::snprintf(other, sizeof other, "%g", 0.5);
  std::ostringstream stream;
  stream << 1234.5;
  ASSERT_EQ(std::string(other) + " " + stream.str(), "0,5 1.234,5");

  EXPECT_EQ(printed("%g %.2f %s %d", 0.5, 1e6, "x", 1234567), "0.5 1000000.00 x 1234567");
  EXPECT_EQ(read_number("0.25"), 0.25);
  char* end = nullptr;
  EXPECT_EQ(read_number("1.5e3 x", &end), 1500);
  EXPECT_STREQ(end, " x");
  EXPECT_EQ(read_number("x", &end), 0);
  EXPECT_STREQ(end, "x");
  TextStream text;
  text << 1234.5 << " " << 1234567;
  EXPECT_EQ(text.str(), "1234.5 1234567");
}

TEST(NumberText, IsLongerThanAnyBuffer) {
  const std::string word(10'000, 'x');
  EXPECT_EQ(printed("%s %g", word.c_str(), 0.5), word + " 0.5");
}

// What a program in which Duet runs sets, a window of Qt for one.
std::vector<std::string> texts_with_numbers() {
  std::vector<std::string> texts = {format_time(0.25),    format_time(1234.5), format_share(0.125),
                                    format_error(1.5e-7), format_bytes(1536),  format_count(1500)};
  for (const CasesOfType& cases : layer_cases()) {
    for (const LayerCase& c : cases.cases) {
      texts.push_back(make_layer(cases.type, c)->problem_text());
    }
  }
  texts.push_back(write_yaml(read_yaml(kTinyNetwork, "net.yaml")));
  texts.push_back(nlohmann::json::parse("[0.5, 1500.25]").dump());
  return texts;
}

TEST(NumberText, LayersConfigurationsAndTablesAskNoLocale) {
  const std::vector<std::string> expected = texts_with_numbers();
  const CommaLocale locale;
  EXPECT_EQ(texts_with_numbers(), expected);
  ConfigErrors errors("");
  ConfigNode node = read_yaml("{slope: 0.125}", "net.yaml");
  ConfigReader reader(node, "leaky_relu", errors);
  EXPECT_EQ(reader.number("slope", 0, 0, 1), 0.125);
  errors.raise_if_any();
}

}  // namespace
}  // namespace duet
