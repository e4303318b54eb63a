// The losses over rows, and all losses against PyTorch (tests/pytorch/make_losses.py).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/mixed_labels.h"
#include "support/case_rig.h"
#include "support/text.h"
#include "test_paths.h"

namespace duet {
namespace {

std::vector<LayerCase> cases_with(std::vector<std::pair<std::string, std::string>> keys,
                                  bool smooth) {
  const auto outputs = [](int64_t n, int64_t c) -> std::vector<TensorDesc> {
    return {{{n, c}}, {{n}, DType::kInt32}};
  };
  std::vector<LayerCase> cases = {
      {.name = "one_row", .x = outputs(1, 2)},
      {.name = "one_class", .x = outputs(5, 1)},
      {.name = "n64_c10", .x = outputs(64, 10)},
      {.name = "n7_c33", .x = outputs(7, 33)},
      {.name = "n3_c1000", .x = outputs(3, 1000), .scale = 3},
      {.name = "n257_c10", .x = outputs(257, 10), .gradient_check = false},
      {.name = "n4099_c7", .x = outputs(4099, 7), .gradient_check = false},
      {.name = "n1021_c1000", .x = outputs(1021, 1000), .gradient_check = false},
      {.name = "large", .x = outputs(17, 13), .scale = 1e4, .gradient_check = false},
      {.name = "ties", .x = outputs(32, 10), .data = Data::kTies},
      {.name = "non_finite", .x = outputs(16, 10), .data = Data::kNonFinite},
  };
  for (LayerCase& c : cases) {
    c.keys = keys;
    c.gradient_check &= smooth;
  }
  return cases;
}

}  // namespace

std::vector<LayerCase> mse_cases() { return cases_with({}, true); }

std::vector<LayerCase> bce_with_logits_cases() { return cases_with({}, true); }

// With p = 1 the gradient jumps.
std::vector<LayerCase> multi_margin_cases() {
  std::vector<LayerCase> cases = cases_with({{"margin", "0.5"}}, false);
  for (LayerCase& c : cases_with({{"p", "2"}, {"margin", "1.5"}}, true)) {
    c.name = "squared_" + c.name;
    cases.push_back(c);
  }
  return cases;
}

namespace {

using nlohmann::json;

TEST(Losses, EqualPyTorchs) {
  const json fixture =
      json::parse(std::ifstream(std::string(DUET_SOURCE_DIR) + "/tests/pytorch/losses.json"));
  const auto labels = fixture["labels"].get<std::vector<double>>();
  const auto x = fixture["x"].get<std::vector<double>>();
  const auto n = static_cast<int64_t>(labels.size());
  for (const json& expected : fixture["cases"]) {
    if (!expected.contains("dx")) continue;  // a metric
    const int64_t classes = static_cast<int64_t>(x.size()) / n;
    const TensorDesc logits{expected.value("positions", false) ? Shape{1, n, classes}
                                                               : Shape{n, classes}};
    LayerCase c{.x = {logits, labels_beside(logits)}};
    const double ignored = expected["keys"].value("ignore_class", -1.0);
    const auto counted = std::count_if(
        labels.begin(), labels.end(), [&](double label) { return label >= 0 && label != ignored; });
    for (const auto& [key, value] : expected["keys"].items()) {
      c.keys.emplace_back(key, value.dump());
    }
    const auto layer = make_layer(expected["type"].get<std::string>(), c);
    const LayerData data{.x = {x, labels}, .dy = {{1}, {}}};
    for (const ImplInfo& info : layer->implementations()) {
      if (device_of(family_of(info.id)) == Device::kGpu && !gpu_available()) continue;
      CaseRig runner(*layer, c, info.id, data, layer->passes());
      for (Pass pass : layer->passes()) runner.run(pass);
      const std::string what = expected["type"].get<std::string>() + " " + expected["keys"].dump() +
                               " " + std::string(info.id);
      const double loss = expected["loss"];
      EXPECT_NEAR(runner.outputs(Pass::kForward)[0].values[0], loss, 2e-6 * (1 + loss)) << what;
      EXPECT_EQ(runner.outputs(Pass::kForward)[1].values[1], counted) << what;
      const auto dx = expected["dx"].get<std::vector<double>>();
      const std::vector<double> found = runner.outputs(Pass::kBackward)[0].values;
      ASSERT_EQ(found.size(), dx.size());
      for (size_t i = 0; i < dx.size(); ++i) EXPECT_NEAR(found[i], dx[i], 1e-6) << what << " " << i;
    }
  }
}

TEST(Losses, HitsAreOfTheOutputsWhateverTheLoss) {
  const double nan = std::nan("");
  for (const char* type : {"softmax_cross_entropy", "mse", "bce_with_logits", "multi_margin"}) {
    const LayerCase c{.x = {{{5, 2}}, {{5}, DType::kInt32}}};
    const auto layer = make_layer(type, c);
    const LayerData data{.x = {{1, 2, 2, 1, 3, 3, 3, 3, nan, 1}, {1, 1, 0, 1, 1}}, .dy = {{1}, {}}};
    for (const ImplInfo& info : layer->implementations()) {
      if (device_of(family_of(info.id)) == Device::kGpu && !gpu_available()) continue;
      CaseRig runner(*layer, c, info.id, data, layer->passes());
      runner.run(Pass::kForward);
      const auto y = runner.outputs(Pass::kForward);
      EXPECT_EQ(y[1].values, (std::vector<double>{2, 5})) << type << " " << info.id;
      EXPECT_TRUE(std::isnan(y[0].values[0])) << type << " " << info.id;
    }
  }
}

TEST(Losses, RefuseWrongKeys) {
  const auto refused = [](const char* type, const char* key, const char* value) {
    const LayerCase c{.keys = {{key, value}}, .x = {{{4, 3}}, {{4}, DType::kInt32}}};
    EXPECT_ANY_THROW(make_layer(type, c)) << type << " " << key << " " << value;
  };
  for (const char* value : {"-0.1", "1.5", "nan", "[0.1]"}) {
    refused("softmax_cross_entropy", "label_smoothing", value);
  }
  for (const char* value : {"[1, 2]", "[1, 2, -3]", "[0, 0, 0]", "[1, nan, 1]", "[1, 1e9, 1]"}) {
    refused("softmax_cross_entropy", "class_weights", value);
  }
  for (const char* value : {"0", "3", "1.5"}) refused("multi_margin", "p", value);
  for (const char* value : {"nan", "1e30"}) refused("multi_margin", "margin", value);
  refused("mse", "margin", "1");
}

TEST(Losses, OthersThanCrossEntropyRefuseMixedLabels) {
  const LayerCase c{.x = {{{4, 3}}, mixed_labels_desc(4)}};
  EXPECT_NO_THROW(make_layer("softmax_cross_entropy", c));
  for (const char* type : {"mse", "bce_with_logits", "multi_margin"}) {
    const std::string why = error_of<ShapeError>([&] { make_layer(type, c); });
    EXPECT_TRUE(has(why, "takes no mixed labels", "take mixup out of data.augment")) << why;
  }
}

}  // namespace
}  // namespace duet
