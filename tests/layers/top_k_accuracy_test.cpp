// The metric top_k_accuracy, also against PyTorch (tests/pytorch/make_losses.py).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/mixed_labels.h"
#include "layers/layers.h"
#include "support/case_rig.h"
#include "support/text.h"
#include "test_paths.h"

namespace duet {
namespace {

using Keys = std::vector<std::pair<std::string, std::string>>;

std::vector<TensorDesc> labelled(const Shape& shape) {
  const TensorDesc x{shape};
  return {x, labels_beside(x)};
}

}  // namespace

std::vector<LayerCase> top_k_accuracy_cases() {
  const Keys one = {{"k", "1"}}, three = {{"k", "3"}};
  return {
      {.name = "one_row", .keys = one, .x = labelled({1, 2})},
      {.name = "one_class", .keys = one, .x = labelled({5, 1})},
      {.name = "n64_c10", .x = labelled({64, 10})},
      {.name = "all_of_5", .x = labelled({7, 5})},
      {.name = "n7_c33", .keys = three, .x = labelled({7, 33})},
      {.name = "n257_c129", .keys = three, .x = labelled({257, 129})},
      {.name = "n5_c1000", .keys = {{"k", "500"}}, .x = labelled({5, 1000})},
      {.name = "several_blocks", .keys = three, .x = labelled({70001, 7})},
      {.name = "positions", .keys = three, .x = labelled({4, 7, 10})},
      {.name = "three_positions", .keys = one, .x = labelled({9, 3, 4})},
      {.name = "ignored", .keys = {{"k", "2"}, {"ignore_class", "1"}}, .x = labelled({33, 4})},
      {.name = "mixed", .keys = three, .x = {{{64, 10}}, mixed_labels_desc(64)}},
      {.name = "ties", .keys = three, .x = labelled({301, 10}), .data = Data::kTies},
      {.name = "non_finite", .keys = three, .x = labelled({64, 10}), .data = Data::kNonFinite},
  };
}

namespace {

/// The totals that every implementation that runs on this machine gives.
void expect_totals(const LayerCase& c, const std::vector<double>& x,
                   const std::vector<double>& labels, std::vector<double> expected) {
  const auto layer = make_layer("top_k_accuracy", c);
  for (const ImplInfo& info : layer->implementations()) {
    if (device_of(family_of(info.id)) == Device::kGpu && !gpu_available()) continue;
    CaseRig rig(*layer, c, info.id, {.x = {x, labels}, .dy = {{0, 0}}}, layer->passes());
    rig.run(Pass::kForward);
    EXPECT_EQ(rig.outputs(Pass::kForward)[0].values, expected) << info.id;
  }
}

TEST(TopKAccuracy, EqualsPyTorchs) {
  using nlohmann::json;
  const json fixture = json::parse(std::ifstream(DUET_SOURCE_DIR "/tests/pytorch/losses.json"));
  const auto labels = fixture["labels"].get<std::vector<double>>();
  const auto x = fixture["x"].get<std::vector<double>>();
  const auto n = static_cast<int64_t>(labels.size());
  int cases = 0;
  for (const json& expected : fixture["cases"]) {
    if (expected["type"] != "top_k_accuracy") continue;
    const LayerCase c{.keys = {{"k", expected["keys"]["k"].dump()}},
                      .x = labelled({n, static_cast<int64_t>(x.size()) / n})};
    expect_totals(c, x, labels, {expected["hits"].get<double>(), static_cast<double>(n - 1)});
    ++cases;
  }
  EXPECT_EQ(cases, 5);
}

TEST(TopKAccuracy, IsByRank) {
  // The label's output is the r-th largest of six.
  for (int k = 1; k <= 6; ++k) {
    for (int rank = 1; rank <= 6; ++rank) {
      const LayerCase c{.keys = {{"k", std::to_string(k)}}, .x = labelled({1, 6})};
      expect_totals(c, {3, 6, 1, 5, 2, 4}, {std::vector<double>{1, 3, 5, 0, 4, 2}[rank - 1]},
                    {rank <= k ? 1.0 : 0.0, 1});
    }
  }
}

TEST(TopKAccuracy, FirstOfEqualOutputsIsTheLarger) {
  const LayerCase c{.keys = {{"k", "2"}}, .x = labelled({4, 4})};
  expect_totals(c, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1}, {0, 1, 2, 2}, {3, 4});
}

TEST(TopKAccuracy, ARowWithANaNIsNoHitAndCounts) {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  const LayerCase c{.keys = {{"k", "3"}}, .x = labelled({4, 3})};
  expect_totals(c, {nan, 1, 2, 5, 1, nan, infinity, -infinity, 0, -infinity, -infinity, -infinity},
                {0, 0, 1, 2}, {2, 4});
}

TEST(TopKAccuracy, RowsWithoutAClassDoNotCount) {
  const double largest = std::numeric_limits<int32_t>::max();
  const std::vector<double> x = {1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0, 1};
  LayerCase c{.keys = {{"k", "1"}}, .x = labelled({6, 2})};
  expect_totals(c, x, {-1, 0, 2, largest, -largest - 1, 1}, {2, 2});
  c.keys.emplace_back("ignore_class", "1");
  expect_totals(c, x, {-1, 0, 2, largest, -largest - 1, 1}, {1, 1});
  expect_totals(c, x, {1, 1, 1, 1, 1, 1}, {0, 0});
  c.x = labelled({2, 3, 2});
  expect_totals(c, x, {-1, 0, 0, 1, 0, 0}, {3, 4});
}

// The label with the larger share; of equal ones the first.
TEST(TopKAccuracy, OfMixedLabels) {
  const LayerCase c{.keys = {{"k", "1"}}, .x = {{{4, 2}}, mixed_labels_desc(4)}};
  const double half = kWholeShare / 2;
  expect_totals(c, {0, 1, 0, 1, 0, 1, 0, 1}, {1, 0, half, 0, 1, half, 0, 1, 1, 1, -1, half + 1},
                {2, 3});
}

TEST(TopKAccuracy, RefusesWhatDoesNotFit) {
  const auto refusal = [](const Keys& keys, const std::vector<TensorDesc>& x) {
    const LayerCase c{.keys = keys, .x = x};
    return error_of<ConfigError>([&] { make_layer("top_k_accuracy", c); });
  };
  EXPECT_TRUE(has(refusal({}, labelled({8, 3})), "the 5 largest outputs", "8x3 has 3",
                  "set 'k' to at most 3"));
  EXPECT_TRUE(has(refusal({{"k", "0"}}, labelled({8, 3})), "k"));
  EXPECT_TRUE(has(refusal({{"k", "1"}}, labelled({8, 3, 4, 4})), "takes logits N x C or N x T x C",
                  "8x3x4x4"));
  EXPECT_TRUE(has(refusal({{"k", "1"}}, {{{2, 4, 3}}, labels_desc(2)}),
                  "labels 2x4 int32 for logits 2x4x3", "not 2 int32"));
}

TEST(TopKAccuracy, IsAMetricOfLabels) {
  const auto layer = make_layer("top_k_accuracy", {.x = labelled({2, 5})});
  EXPECT_TRUE(layer->is_metric() && layer->takes_labels() && layer->larger_is_better());
  EXPECT_FALSE(layer->is_loss() || layer->has_gradient(0) || layer->has_gradient(1));
}

}  // namespace
}  // namespace duet
