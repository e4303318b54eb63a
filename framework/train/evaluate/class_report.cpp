#include "train/evaluate/class_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/printable.h"
#include "net/table.h"
#include "train/checkpoint/trained.h"

namespace duet {
namespace {

using nlohmann::json;
using Rows = std::vector<std::vector<std::string>>;

constexpr size_t kMostConfusions = 10;  // told of many classes

json share(double value) { return std::isfinite(value) ? json(value) : json(); }

std::string percent_or_dash(double value) {
  return std::isfinite(value) ? fmt::format("{:.2f}%", 100.0 * value) : "-";
}

// Rows are what the images are, columns what they are predicted to be, by number.
std::string matrix_text(const DatasetInfo& info, const Metrics& metrics) {
  const size_t classes = metrics.classes.size();
  Rows rows = {{"is \\ predicted"}};
  for (size_t i = 0; i < classes; ++i) {
    rows[0].push_back(std::to_string(i));
    rows.push_back({fmt::format("{} {}", i, printable(class_name(info, i)))});
    for (size_t j = 0; j < classes; ++j) {
      rows.back().push_back(format_count(metrics.confusion[i * classes + j]));
    }
  }
  return format_table(rows);
}

std::string confusions_text(const DatasetInfo& info, const Metrics& metrics) {
  const size_t classes = metrics.classes.size();
  std::vector<size_t> wrong;
  for (size_t i = 0; i < metrics.confusion.size(); ++i) {
    if (i / classes != i % classes && metrics.confusion[i] > 0) wrong.push_back(i);
  }
  const size_t count = std::min(wrong.size(), kMostConfusions);
  std::partial_sort(wrong.begin(), wrong.begin() + static_cast<ptrdiff_t>(count), wrong.end(),
                    [&](size_t a, size_t b) {
                      const int64_t of_a = metrics.confusion[a], of_b = metrics.confusion[b];
                      return of_a != of_b ? of_a > of_b : a < b;
                    });
  Rows rows = {{"class", "most often predicted as", "images"}};
  for (size_t k = 0; k < count; ++k) {
    rows.push_back({printable(class_name(info, wrong[k] / classes)),
                    printable(class_name(info, wrong[k] % classes)),
                    format_count(metrics.confusion[wrong[k]])});
  }
  return count == 0 ? "" : format_table(rows);
}

}  // namespace

json evaluation_json(const DatasetInfo& info, const Metrics& metrics) {
  json classes = json::array();
  for (size_t i = 0; i < metrics.classes.size(); ++i) {
    const ClassMetrics& found = metrics.classes[i];
    classes.push_back({{"class", i},
                       {"name", class_name(info, i)},
                       {"images", found.rows},
                       {"predicted", found.predicted},
                       {"precision", share(found.precision())},
                       {"recall", share(found.recall())}});
  }
  json result = {{"images", metrics.rows}, {"classes", classes}};
  for (const Metrics::Value& each : metrics.values("val_")) result[each.name] = each.value;
  for (auto row = metrics.confusion.begin(); row != metrics.confusion.end();
       row += static_cast<ptrdiff_t>(classes.size())) {
    result["confusion"].push_back(
        std::vector<int64_t>(row, row + static_cast<ptrdiff_t>(classes.size())));
  }
  return result;
}

std::string classes_text(const DatasetInfo& info, const Metrics& metrics) {
  Rows rows = {{"class", "images", "precision", "recall"}};
  for (size_t i = 0; i < metrics.classes.size(); ++i) {
    const ClassMetrics& found = metrics.classes[i];
    rows.push_back({printable(class_name(info, i)), format_count(found.rows),
                    percent_or_dash(found.precision()), percent_or_dash(found.recall())});
  }
  const std::string table = format_table(rows);
  if (metrics.confusion.empty()) return table;
  return table + (metrics.classes.size() <= kMostMatrixColumns ? matrix_text(info, metrics)
                                                               : confusions_text(info, metrics));
}

}  // namespace duet
