#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/config.h"
#include "core/mixed_labels.h"
#include "layers/layers.h"
#include "support/case_rig.h"
#include "support/text.h"

namespace duet {

std::vector<LayerCase> softmax_cross_entropy_cases() {
  const auto logits = [](int64_t n, int64_t c) -> std::vector<TensorDesc> {
    return {{{n, c}}, labels_desc(n)};
  };
  const auto mixed = [](int64_t n, int64_t c) -> std::vector<TensorDesc> {
    return {{{n, c}}, mixed_labels_desc(n)};
  };
  const auto positions = [](int64_t n, int64_t t, int64_t c) -> std::vector<TensorDesc> {
    const TensorDesc x{{n, t, c}};
    return {x, labels_beside(x)};
  };
  return {
      {.name = "one_row", .x = logits(1, 2)},
      {.name = "one_class", .x = logits(5, 1)},
      {.name = "n64_c10", .x = logits(64, 10)},
      {.name = "n7_c33", .x = logits(7, 33)},
      {.name = "n3_c1000", .x = logits(3, 1000), .scale = 5},
      {.name = "n257_c10", .x = logits(257, 10), .gradient_check = false},
      {.name = "n1_c1000", .x = logits(1, 1000)},
      {.name = "n256_c10", .x = logits(256, 10), .gradient_check = false},
      {.name = "n4096_c10", .x = logits(4096, 10), .gradient_check = false},
      {.name = "n4099_c7", .x = logits(4099, 7), .gradient_check = false},
      {.name = "n1021_c1000", .x = logits(1021, 1000), .gradient_check = false},
      {.name = "n70001_c33", .x = logits(70001, 33), .gradient_check = false},
      {.name = "huge_logits", .x = logits(17, 13), .scale = 1e4, .gradient_check = false},
      {.name = "large_logits", .x = logits(16, 10), .scale = 200},
      {.name = "smoothed", .keys = {{"label_smoothing", "0.1"}}, .x = logits(33, 10)},
      {.name = "weighted",
       .keys = {{"class_weights", "[0.5, 2, 1]"}},
       .x = logits(64, 3),
       .scale = 3},
      {.name = "smoothed_weighted",
       .keys = {{"label_smoothing", "0.25"}, {"class_weights", "[0, 1.5, 0.3, 4, 1, 1, 2]"}},
       .x = logits(29, 7)},
      {.name = "smoothed_large",
       .keys = {{"label_smoothing", "0.1"}},
       .x = logits(1021, 100),
       .gradient_check = false},
      // Rows that custom_warp keeps in the registers of a warp or a block, and longer ones.
      {.name = "n9_c129", .x = logits(9, 129)},
      {.name = "n5_c1001", .x = logits(5, 1001), .scale = 5},
      {.name = "n7_c1500", .x = logits(7, 1500), .gradient_check = false},
      {.name = "n3_c8192", .x = logits(3, 8192), .gradient_check = false},
      {.name = "n2_c8193", .x = logits(2, 8193), .gradient_check = false},
      {.name = "n20000_c200", .x = logits(20000, 200), .gradient_check = false},
      {.name = "smoothed_c200", .keys = {{"label_smoothing", "0.1"}}, .x = logits(33, 200)},
      {.name = "mixed_c300", .x = mixed(11, 300), .scale = 3},
      {.name = "ties_c300", .x = logits(11, 300), .data = Data::kTies},
      {.name = "non_finite_c300", .x = logits(16, 300), .data = Data::kNonFinite},
      {.name = "mixed", .x = mixed(64, 10), .scale = 3},
      {.name = "mixed_one_class", .x = mixed(5, 1)},
      {.name = "mixed_large", .x = mixed(4099, 33), .gradient_check = false},
      {.name = "mixed_smoothed_weighted",
       .keys = {{"label_smoothing", "0.25"}, {"class_weights", "[0, 1.5, 0.3, 4, 1, 1, 2]"}},
       .x = mixed(29, 7)},
      {.name = "positions", .x = positions(4, 7, 10)},
      {.name = "one_position", .x = positions(5, 1, 6)},
      {.name = "positions_of_one_class", .x = positions(3, 4, 1)},
      // As many positions as mixed labels have columns.
      {.name = "three_positions", .x = positions(9, 3, 5)},
      {.name = "positions_c300", .x = positions(3, 5, 300), .scale = 3, .gradient_check = false},
      {.name = "many_positions", .x = positions(33, 129, 33), .gradient_check = false},
      {.name = "positions_smoothed_weighted",
       .keys = {{"label_smoothing", "0.25"}, {"class_weights", "[0, 1.5, 0.3, 4, 1, 1, 2]"}},
       .x = positions(5, 6, 7)},
      {.name = "positions_non_finite", .x = positions(4, 6, 10), .data = Data::kNonFinite},
      {.name = "ignored", .keys = {{"ignore_class", "1"}}, .x = logits(33, 4)},
      {.name = "ignored_positions", .keys = {{"ignore_class", "0"}}, .x = positions(4, 9, 3)},
      {.name = "ignored_all", .keys = {{"ignore_class", "0"}}, .x = positions(3, 4, 1)},
      {.name = "ignored_no_class", .keys = {{"ignore_class", "255"}}, .x = logits(9, 4)},
      {.name = "ignored_c300", .keys = {{"ignore_class", "299"}}, .x = logits(40, 300)},
      {.name = "ignored_smoothed_weighted",
       .keys = {{"label_smoothing", "0.25"},
                {"class_weights", "[0, 1.5, 0.3, 4, 1, 1, 2]"},
                {"ignore_class", "3"}},
       .x = logits(43, 7)},
      {.name = "ignored_mixed",
       .keys = {{"class_weights", "[2, 1.5, 0.3]"}, {"ignore_class", "1"}},
       .x = mixed(29, 3)},
      {.name = "mixed_ties", .x = mixed(32, 10), .data = Data::kTies},
      {.name = "mixed_non_finite", .x = mixed(16, 10), .data = Data::kNonFinite},
      {.name = "ties", .x = logits(32, 10), .data = Data::kTies},
      {.name = "non_finite", .x = logits(16, 10), .data = Data::kNonFinite},
  };
}

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Results {
  std::string id;
  double loss, hits, counted;
  std::vector<double> dx;
};

using Keys = std::vector<std::pair<std::string, std::string>>;

/// What every implementation that can run here makes of `logits` (row by row) and `labels`.
std::vector<Results> run_all(const std::vector<double>& logits, const std::vector<double>& labels,
                             double dloss = 1, bool mixed = false, const Keys& keys = {}) {
  const auto n = static_cast<int64_t>(labels.size()) / (mixed ? kMixedWords : 1);
  const LayerCase c{.keys = keys,
                    .x = {{{n, static_cast<int64_t>(logits.size()) / n}},
                          mixed ? mixed_labels_desc(n) : labels_desc(n)}};
  const auto layer = make_layer("softmax_cross_entropy", c);
  const LayerData data{.x = {logits, labels}, .dy = {{dloss}, {}}};
  std::vector<Results> all;
  for (const ImplInfo& info : layer->implementations()) {
    if (device_of(family_of(info.id)) == Device::kGpu && !gpu_available()) continue;
    CaseRig runner(*layer, c, info.id, data, layer->passes());
    for (Pass pass : layer->passes()) {
      runner.run(pass);
      EXPECT_EQ(runner.damage(), "") << info.id;
    }
    const auto y = runner.outputs(Pass::kForward);
    all.push_back({std::string(info.id), y[0].values[0], y[1].values[0], y[1].values[1],
                   runner.outputs(Pass::kBackward)[0].values});
  }
  return all;
}

TEST(SoftmaxCrossEntropy, KnownValues) {
  // softmax(0, ln 3) = (1/4, 3/4)
  const double ln3 = std::log(3.0);
  for (const Results& r : run_all({0, ln3, 0, ln3}, {1, 0}, 2)) {
    EXPECT_NEAR(r.loss, (std::log(4.0 / 3) + std::log(4.0)) / 2, 1e-6) << r.id;
    EXPECT_EQ(r.hits, 1) << r.id;
    EXPECT_EQ(r.counted, 2) << r.id;
    const double expected[] = {0.25, -0.25, -0.75, 0.75};
    for (int i = 0; i < 4; ++i) EXPECT_NEAR(r.dx[i], expected[i], 1e-6) << r.id << " dx " << i;
  }
}

TEST(SoftmaxCrossEntropy, RefusesWhatIsNoWeight) {
  const auto mistake = [](std::vector<std::string> weights) {
    ConfigNode node = ConfigNode::map(), list{.kind = ConfigNode::Kind::kList};
    for (const std::string& weight : weights) list.items.push_back(ConfigNode::of(weight));
    node.at_or_add("class_weights") = list;
    ConfigErrors errors("net.yaml");
    ConfigReader reader(node, "loss", errors);
    find_layer_type("softmax_cross_entropy")->make(reader);
    return error_of([&] { errors.raise_if_any(); });
  };
  EXPECT_EQ(mistake({"0", "1"}), "");
  EXPECT_TRUE(has(mistake({"1", "-1"}), "class_weights: expected numbers from 0 to 1e6"));
  EXPECT_TRUE(has(mistake({"1e7", "1"}), "class_weights: expected numbers from 0 to 1e6"));
  EXPECT_TRUE(has(mistake({"0", "0"}), "class_weights: expected a number above 0 among them"));
  EXPECT_TRUE(has(mistake({}), "class_weights: expected a number above 0 among them"));
  const std::string nan = mistake({"1", ".nan"});
  EXPECT_TRUE(has(nan, "class_weights: expected a number or a list of numbers, found '.nan'"));
  EXPECT_EQ(nan.find("above 0"), std::string::npos) << nan;
}

TEST(SoftmaxCrossEntropy, SmallDifferencesOfLargeLogits) {
  for (const Results& r : run_all({1e4, 1e4, -1e4, -1e4, 1e4, -1e4}, {0, 1})) {
    EXPECT_NEAR(r.loss, (std::log(2.0) + 0) / 2, 1e-6) << r.id;
    EXPECT_EQ(r.hits, 2) << r.id;
    const double expected[] = {-0.25, 0.25, 0, 0, 0, 0};
    for (int i = 0; i < 6; ++i) EXPECT_NEAR(r.dx[i], expected[i], 1e-6) << r.id << " dx " << i;
  }
}

TEST(SoftmaxCrossEntropy, FirstOfEqualLogitsIsTheLargest) {
  for (const Results& r : run_all({1, 1, 1, 1, 1, 1}, {0, 1})) EXPECT_EQ(r.hits, 1) << r.id;
}

TEST(SoftmaxCrossEntropy, WithoutCountedRowsEverythingIsZero) {
  for (const Results& r : run_all({1, 2, 3, kNaN}, {-1, -1})) {
    EXPECT_EQ(r.loss, 0) << r.id;
    EXPECT_EQ(r.hits, 0) << r.id;
    EXPECT_EQ(r.counted, 0) << r.id;
    for (double dx : r.dx) EXPECT_EQ(dx, 0) << r.id;
  }
}

TEST(SoftmaxCrossEntropy, NaNReachesTheLossAndIsNoHit) {
  for (const Results& r : run_all({5, kNaN, 5, 1}, {0, 0})) {
    EXPECT_TRUE(std::isnan(r.loss)) << r.id;
    EXPECT_EQ(r.hits, 1) << r.id;
    EXPECT_EQ(r.counted, 2) << r.id;
    EXPECT_TRUE(std::isnan(r.dx[0])) << r.id;
    EXPECT_TRUE(std::isfinite(r.dx[2])) << r.id;
  }
}

TEST(SoftmaxCrossEntropy, LabelAtMinusInfinityGivesAnInfiniteLoss) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const Results& r : run_all({0, -kInfinity}, {1})) {
    EXPECT_EQ(r.loss, kInfinity) << r.id;
    EXPECT_EQ(r.hits, 0) << r.id;
  }
}

TEST(SoftmaxCrossEntropy, LabelsOutOfRangeTouchNothing) {
  const double largest = std::numeric_limits<int32_t>::max();
  for (const Results& r : run_all({1, 2, 1, 2, 1, 2, 1, 2}, {2, largest, -largest - 1, 1})) {
    EXPECT_EQ(r.counted, 1) << r.id;
    EXPECT_EQ(r.hits, 1) << r.id;
    for (int i = 0; i < 6; ++i) EXPECT_EQ(r.dx[i], 0) << r.id;
  }
}

// Held to what rows with one label each give.
TEST(SoftmaxCrossEntropy, MixedLabelsGiveTheMeanOfTheirLosses) {
  const std::vector<double> x = {1, -2, 0.5, 0, 3, 2, -1, 0.25, 0.75, 2, 2, -3};
  const std::vector<double> labels = {0, 2, 16384, 1, 1, 40000, 2, 0, 65536, 2, 1, 32768};
  const double weights[] = {0.5, 2, 1};
  for (const Keys& keys : {Keys{}, Keys{{"label_smoothing", "0.2"}},
                           Keys{{"class_weights", "[0.5, 2, 1]"}, {"label_smoothing", "0.2"}}}) {
    const auto weight = [&](double label) {
      return keys.size() == 2 ? weights[static_cast<int>(label)] : 1.0;
    };
    const auto results = run_all(x, labels, 2, true, keys);
    for (size_t i = 0; i < results.size(); ++i) {
      double loss = 0, total = 0;
      std::vector<double> dx(x.size());
      for (size_t row = 0; row < 4; ++row) {
        const std::vector<double> logits(&x[3 * row], &x[3 * row] + 3);
        for (const size_t column : {0, 1}) {
          const double label = labels[3 * row + column], share = labels[3 * row + 2] / 65536;
          const double part = weight(label) * (column == 0 ? share : 1 - share);
          const Results one = run_all(logits, {label}, 2, false, keys)[i];
          loss += part * one.loss;
          total += part;
          for (size_t j = 0; j < 3; ++j) dx[3 * row + j] += part * one.dx[j];
        }
      }
      const Results& r = results[i];
      EXPECT_NEAR(r.loss, loss / total, 1e-6) << r.id;
      for (size_t j = 0; j < x.size(); ++j) EXPECT_NEAR(r.dx[j], dx[j] / total, 1e-6) << r.id;
      // Row 0 is asked for label 2, and row 3, of equal shares, for its first label.
      EXPECT_EQ(r.hits, 2) << r.id;
      EXPECT_EQ(r.counted, 4) << r.id;
    }
  }
}

TEST(SoftmaxCrossEntropy, ARowCountsIfBothItsLabelsDo) {
  for (const Results& r :
       run_all({1, 2, 1, 2, 1, 2}, {0, -1, 30000, 7, 1, 60000, 1, 0, 50000}, 1, true)) {
    EXPECT_EQ(r.counted, 1) << r.id;
    EXPECT_EQ(r.hits, 1) << r.id;
    for (int i = 0; i < 4; ++i) EXPECT_EQ(r.dx[i], 0) << r.id;
  }
}

// Held to what the other rows give alone.
TEST(SoftmaxCrossEntropy, IgnoredRowsPassNothing) {
  const std::vector<double> x = {1, -2, 0.5, kNaN, 3, 2, -1, 0.25, 0.75, 2, 2, -3};
  const auto ignoring = run_all(x, {0, 1, 2, 1}, 3, false, {{"ignore_class", "1"}});
  const auto alone = run_all({1, -2, 0.5, -1, 0.25, 0.75}, {0, 2}, 3);
  for (size_t i = 0; i < ignoring.size(); ++i) {
    const Results &r = ignoring[i], &expected = alone[i];
    EXPECT_EQ(r.loss, expected.loss) << r.id;
    EXPECT_EQ(r.hits, expected.hits) << r.id;
    EXPECT_EQ(r.counted, 2) << r.id;
    for (size_t j = 0; j < 3; ++j) {
      EXPECT_EQ(r.dx[j], expected.dx[j]) << r.id;
      EXPECT_EQ(r.dx[6 + j], expected.dx[3 + j]) << r.id;
      EXPECT_EQ(r.dx[3 + j], 0) << r.id;
      EXPECT_EQ(r.dx[9 + j], 0) << r.id;
    }
  }
  for (const Results& r : run_all(x, {1, 1, 1, 1}, 1, false, {{"ignore_class", "1"}})) {
    EXPECT_EQ(r.loss, 0) << r.id;
    EXPECT_EQ(r.counted, 0) << r.id;
    for (double dx : r.dx) EXPECT_EQ(dx, 0) << r.id;
  }
  // A mixed row does not count if either of its labels is ignored.
  for (const Results& r : run_all(x, {0, 1, 60000, 1, 2, 100, 2, 0, 40000, 1, 1, 65536}, 1, true,
                                  {{"ignore_class", "1"}})) {
    EXPECT_EQ(r.counted, 1) << r.id;
    EXPECT_TRUE(std::isfinite(r.loss)) << r.id;
  }
}

// A position is a row, whatever axis it is on.
TEST(SoftmaxCrossEntropy, PositionsAreRows) {
  const LayerCase rows{.x = {{{6, 2}}, labels_desc(6)}};
  const auto expected = make_layer("softmax_cross_entropy", rows);
  const LayerData data{.x = {{1, 2, 5, 3, 0, 0, 2, 1, 9, 9, -1, 4}, {1, 1, -1, 0, 1, 0}},
                       .dy = {{2}, {}}};
  for (const Shape& shape : {Shape{2, 3, 2}, {1, 6, 2}, {6, 1, 2}}) {
    const TensorDesc x{shape};
    const LayerCase c{.x = {x, labels_beside(x)}};
    const auto layer = make_layer("softmax_cross_entropy", c);
    for (const ImplInfo& info : layer->implementations()) {
      if (device_of(family_of(info.id)) == Device::kGpu && !gpu_available()) continue;
      CaseRig rig(*layer, c, info.id, data, layer->passes()),
          of_rows(*expected, rows, info.id, data, layer->passes());
      for (Pass pass : layer->passes()) {
        rig.run(pass);
        of_rows.run(pass);
        EXPECT_EQ(rig.outputs(pass)[0].values, of_rows.outputs(pass)[0].values) << info.id;
      }
      EXPECT_EQ(rig.outputs(Pass::kForward)[1].values, (std::vector<double>{2, 5})) << info.id;
    }
  }
}

TEST(SoftmaxCrossEntropy, NamesTheShapesThatDoNotFit) {
  const auto refusal = [](const Shape& x, const Shape& labels) {
    const LayerCase c{.x = {{x}, {labels, DType::kInt32}}};
    return error_of<ShapeError>([&] { make_layer("softmax_cross_entropy", c); });
  };
  EXPECT_TRUE(
      has(refusal({2, 5, 7}, {2, 4}), "labels 2x5 int32 for logits 2x5x7", "not 2x4 int32"));
  EXPECT_TRUE(has(refusal({2, 5, 7}, {2}), "labels 2x5 int32 for logits 2x5x7", "not 2 int32"));
  EXPECT_TRUE(has(refusal({2, 5, 7}, {2, 5, 7}), "labels 2x5 int32", "not 2x5x7 int32"));
  EXPECT_TRUE(has(refusal({2, 3}, {3}), "labels 2 int32 for logits 2x3", "not 3 int32"));
  EXPECT_TRUE(has(refusal({2, 3, 5, 7}, {2, 5, 7}), "takes logits N x C or N x T x C",
                  "not 2x3x5x7", "classes are the last axis"));
  EXPECT_TRUE(has(refusal({6}, {6}), "takes logits N x C or N x T x C", "not 6"));
  const LayerCase row_loss{.x = {{{2, 5, 7}}, {{2, 5}, DType::kInt32}}};
  EXPECT_TRUE(has(error_of<ShapeError>([&] { make_layer("mse", row_loss); }),
                  "takes logits N x C, not 2x5x7"));
  const LayerCase negative{.keys = {{"ignore_class", "-100"}}, .x = {{{2, 3}}, labels_desc(2)}};
  EXPECT_TRUE(has(error_of([&] { make_layer("softmax_cross_entropy", negative); }), "ignore_class",
                  "-100"));
}

TEST(SoftmaxCrossEntropy, RefusesImagesAndMissingLabels) {
  const LayerCase image{.x = {{{2, 3, 5, 7}}, {{2}, DType::kInt32}}};
  EXPECT_THROW(make_layer("softmax_cross_entropy", image), ShapeError);
  const LayerCase alone{.x = {{{2, 3}}}};
  EXPECT_THROW(make_layer("softmax_cross_entropy", alone), ShapeError);
  const LayerCase other{.x = {{{2, 3}}, {{3}, DType::kInt32}}};
  EXPECT_THROW(make_layer("softmax_cross_entropy", other), ShapeError);
}

}  // namespace
}  // namespace duet
