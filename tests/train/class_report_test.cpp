#include "train/evaluate/class_report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "support/text.h"

namespace duet {
namespace {

Metrics metrics_of_classes(size_t classes) {
  Metrics metrics;
  metrics.top5 = NAN;
  metrics.classes.resize(classes);
  metrics.confusion.resize(classes * classes);
  return metrics;
}

TEST(ClassReport, MatrixHasARowForEachClass) {
  Metrics metrics = metrics_of_classes(2);
  metrics.classes = {{4, 3, 3}, {1500, 1501, 1500}};
  metrics.confusion = {3, 1, 0, 1500};
  DatasetInfo info;
  info.class_names = {"cat", "dog"};
  EXPECT_EQ(classes_text(info, metrics),
            "class  images  precision  recall\n"
            "cat    4       100.00%    75.00%\n"
            "dog    1,500   99.93%     100.00%\n"
            "is \\ predicted  0  1\n"
            "0 cat           3  1\n"
            "1 dog           0  1,500\n");
  EXPECT_EQ(evaluation_json(info, metrics)["confusion"], nlohmann::json({{3, 1}, {0, 1500}}));
}

TEST(ClassReport, OfManyClassesTheMostFrequentConfusions) {
  Metrics metrics = metrics_of_classes(kMostMatrixColumns + 1);
  const size_t n = metrics.classes.size();
  for (size_t i = 0; i < 12; ++i) metrics.confusion[i * n + i + 1] = static_cast<int64_t>(i + 1);
  metrics.confusion[5 * n + 5] = 1000;  // right
  DatasetInfo info;
  const std::string text = classes_text(info, metrics);
  EXPECT_TRUE(has(text, "most often predicted as"));
  const std::vector<std::string> lines = lines_of(text);
  EXPECT_EQ(lines.size(), 1 + n + 1 + 10);
  EXPECT_TRUE(has(lines[n + 2], "11", "12"));
  EXPECT_EQ(text.find("1,000"), std::string::npos);
  EXPECT_FALSE(has(text, "is \\ predicted"));
}

TEST(ClassReport, OfTooManyClassesThereIsNoMatrix) {
  Metrics metrics = metrics_of_classes(3);
  metrics.confusion.clear();
  DatasetInfo info;
  EXPECT_FALSE(evaluation_json(info, metrics).contains("confusion"));
  EXPECT_EQ(lines_of(classes_text(info, metrics)).size(), 4u);
}

}  // namespace
}  // namespace duet
