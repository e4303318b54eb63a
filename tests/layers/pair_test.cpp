// Losses and metrics of two tensors, also against PyTorch (tests/pytorch/make_pairs.py).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/field.h"
#include "layers/layers.h"
#include "support/case_rig.h"
#include "support/text.h"
#include "test_paths.h"

namespace duet {
namespace {

using Keys = std::vector<std::pair<std::string, std::string>>;

// x, targets of its shape, and rows.
std::vector<TensorDesc> pair_of(const Shape& shape) {
  return {{shape}, {shape}, rows_desc(shape[0])};
}

// Vectors of 4 and of 8 begin in one row and end in another, and tails are left, in most of them. Row
// 3 and every fifth behind it does not count: the last of row_of_one, rows_of_3 and rank_3.
std::vector<LayerCase> cases_with(const Keys& keys) {
  std::vector<LayerCase> cases = {
      {.name = "one_element", .x = pair_of({1})},
      {.name = "one_image", .x = pair_of({1, 3, 5, 7})},
      {.name = "rows_of_one", .x = pair_of({9})},
      {.name = "rows_of_3", .x = pair_of({19, 3})},
      {.name = "rows_of_8", .x = pair_of({16, 8})},
      {.name = "rank_3", .x = pair_of({4, 3, 5})},
      {.name = "odd", .x = pair_of({5, 3, 7, 9})},
      {.name = "pixels", .x = pair_of({7, 3, 1, 1})},
      {.name = "images", .x = pair_of({6, 3, 32, 32}), .gradient_check = false},
      {.name = "many_rows", .x = pair_of({4099, 2}), .gradient_check = false},
      {.name = "several_blocks", .x = pair_of({13, 7, 33, 31}), .gradient_check = false},
      {.name = "integers", .x = pair_of({16, 4}), .data = Data::kIntegers},
      {.name = "ties", .x = pair_of({8, 12}), .data = Data::kTies},
      {.name = "large", .x = pair_of({17, 13}), .scale = 1e4, .gradient_check = false},
      {.name = "non_finite", .x = pair_of({16, 11}), .data = Data::kNonFinite},
  };
  const size_t count = cases.size();
  for (size_t i = 0; i < count; ++i) {
    if (cases[i].x[0].shape.rank() != 4) continue;
    cases.push_back(in_both_layouts({cases[i]}).back());
  }
  for (LayerCase& c : cases) c.keys = keys;
  return cases;
}

void append(std::vector<LayerCase>* cases, const std::string& prefix,
            const std::vector<LayerCase>& more) {
  for (LayerCase c : more) {
    c.name = prefix + c.name;
    cases->push_back(c);
  }
}

}  // namespace

std::vector<LayerCase> mse_loss_cases() { return cases_with({}); }
std::vector<LayerCase> l1_loss_cases() { return cases_with({}); }
std::vector<LayerCase> charbonnier_loss_cases() {
  std::vector<LayerCase> cases = cases_with({});
  append(&cases, "wide_", cases_with({{"eps", "0.25"}}));
  return cases;
}
// Targets are from 0 to 1 but where x is not finite or has ties.
std::vector<LayerCase> binary_cross_entropy_loss_cases() {
  std::vector<LayerCase> cases = cases_with({});
  for (LayerCase& c : cases) {
    if (c.data == Data::kNormal) c.data_of = {Data::kNormal, Data::kUnit};
  }
  return cases;
}
std::vector<LayerCase> mean_absolute_error_cases() { return cases_with({}); }
std::vector<LayerCase> mean_squared_error_cases() { return cases_with({}); }
std::vector<LayerCase> psnr_cases() {
  std::vector<LayerCase> cases = cases_with({{"data_range", "4"}});
  std::vector<LayerCase> bordered;
  for (LayerCase c : cases_with({{"data_range", "255"}, {"border", "2"}})) {
    if (c.x[0].shape.rank() == 4 && c.x[0].shape[3] > 4) bordered.push_back(c);
  }
  append(&cases, "border_", bordered);
  return cases;
}

namespace {

using nlohmann::json;

constexpr const char* kLosses[] = {"mse_loss", "l1_loss", "charbonnier_loss",
                                   "binary_cross_entropy_loss"};

/// Visits every implementation of the layer that runs on this machine.
template <class Visit>
void for_each_here(const Layer& layer, const Visit& visit) {
  for (const ImplInfo& info : layer.implementations()) {
    if (device_of(family_of(info.id)) == Device::kGpu && !gpu_available()) continue;
    SCOPED_TRACE(std::string(layer.type()) + " " + std::string(info.id));
    visit(info.id);
  }
}

void run_all(CaseRig& rig) {
  for (Pass pass : rig.layer().passes()) rig.run(pass);
}

TEST(Pairs, EqualPyTorchs) {
  const json fixture = json::parse(std::ifstream(DUET_SOURCE_DIR "/tests/pytorch/pairs.json"));
  const auto s = fixture["shape"].get<std::vector<int64_t>>();
  for (const json& expected : fixture["cases"]) {
    LayerCase c{.x = pair_of({s[0], s[1], s[2], s[3]})};
    const bool probable = expected.value("probabilities", false);
    for (const auto& [key, value] : expected["keys"].items()) {
      c.keys.emplace_back(key, value.dump());
    }
    const auto layer = make_layer(expected["type"].get<std::string>(), c);
    const LayerData data{
        .x = {fixture["x"].get<std::vector<double>>(),
              fixture[probable ? "probabilities" : "targets"].get<std::vector<double>>(),
              fixture["rows"].get<std::vector<double>>()},
        .dy = {std::vector<double>(layer->is_loss() ? 1 : 2, 1), {}}};
    for_each_here(*layer, [&](std::string_view id) {
      CaseRig rig(*layer, c, id, data, layer->passes());
      run_all(rig);
      const auto y = rig.outputs(Pass::kForward);
      const double value = expected["value"];
      EXPECT_NEAR(y[0].values[0], value, 2e-6 * (1 + std::abs(value)));
      if (!layer->is_loss()) {
        EXPECT_EQ(y[0].values[1], 2);
        return;
      }
      EXPECT_EQ(y[1].values, (std::vector<double>{0, 2}));
      const auto dx = expected["dx"].get<std::vector<double>>();
      const std::vector<double> found = rig.outputs(Pass::kBackward)[0].values;
      ASSERT_EQ(found.size(), dx.size());
      for (size_t i = 0; i < dx.size(); ++i) EXPECT_NEAR(found[i], dx[i], 1e-6) << i;
    });
  }
}

// Rows of three, so that vectors of 4 hold one that counts and one that does not.
TEST(Pairs, RowsThatDoNotCountPassNothing) {
  const double nan = std::nan("");
  const LayerCase c{.x = pair_of({5, 3})};
  for (const bool any : {true, false}) {
    const LayerData data{.x = {{nan, 1, nan, 1, 2, 3, nan, nan, nan, 0, 0, 0, nan, nan, nan},
                               {0, 0, 0, 0, 4, 3, nan, 0, 0, 0, 0, 5, 0, nan, 0},
                               {-1, any ? 7.0 : -1.0, -1, any ? 0.0 : -1.0, -1}},
                         .dy = {{6}, {}}};
    const auto losses = {std::pair("mse_loss", 5.0), {"l1_loss", 8.0 / 6}};
    for (const auto& [type, loss] : losses) {
      const auto layer = make_layer(type, c);
      for_each_here(*layer, [&, loss = loss](std::string_view id) {
        CaseRig rig(*layer, c, id, data, layer->passes());
        run_all(rig);
        const auto y = rig.outputs(Pass::kForward);
        EXPECT_NEAR(y[0].values[0], any ? loss : 0, 1e-6);
        EXPECT_EQ(y[1].values, (std::vector<double>{0, any ? 2.0 : 0.0}));
        const bool squares = layer->type() == "mse_loss";
        const std::vector<double> of_squares = {2, -4, 0, 0, 0, -10},
                                  of_sizes = {1, -1, 0, 0, 0, -1};
        const std::vector<double>& slopes = squares ? of_squares : of_sizes;
        std::vector<double> dx(15);
        for (size_t i = 0; i < 3 && any; ++i) {
          dx[3 + i] = slopes[i];
          dx[9 + i] = slopes[3 + i];
        }
        EXPECT_EQ(rig.outputs(Pass::kBackward)[0].values, dx);
      });
    }
    for (const char* type : {"mean_absolute_error", "mean_squared_error"}) {
      const auto layer = make_layer(type, c);
      LayerData given = data;
      given.dy = {{0, 0}};
      for_each_here(*layer, [&](std::string_view id) {
        CaseRig rig(*layer, c, id, given, layer->passes());
        run_all(rig);
        const double sum = layer->type() == "mean_squared_error" ? 10 : 8.0 / 3;
        const auto y = rig.outputs(Pass::kForward)[0].values;
        EXPECT_NEAR(y[0], any ? sum : 0, 1e-6);
        EXPECT_EQ(y[1], any ? 2 : 0);
      });
    }
  }
}

// Of logits so large that exp() overflows or sigmoid() is 1, and of one that is not finite.
TEST(Pairs, LargeLogitsHaveTheirDigits) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const LayerCase c{.x = pair_of({1, 1})};
  const auto layer = make_layer("binary_cross_entropy_loss", c);
  struct Expected {
    double x, t, loss, dx;
  };
  for (const Expected& each : {Expected{1e4, 0, 1e4, 1},
                               {1e4, 1, 0, 0},
                               {-1e4, 1, 1e4, -1},
                               {-1e4, 0, 0, 0},
                               {40, 1, std::exp(-40.0), -std::exp(-40.0)},
                               {-40, 0, std::exp(-40.0), std::exp(-40.0)},
                               {60, 0.75, 15, 0.25},
                               {0, 0.5, std::log(2.0), 0},
                               {kInfinity, 0.5, kInfinity, 0.5},
                               {-kInfinity, 0.5, kInfinity, -0.5}}) {
    const LayerData data{.x = {{each.x}, {each.t}, {0}}, .dy = {{1}, {}}};
    for_each_here(*layer, [&](std::string_view id) {
      SCOPED_TRACE(each.x);
      CaseRig rig(*layer, c, id, data, layer->passes());
      run_all(rig);
      const double loss = rig.outputs(Pass::kForward)[0].values[0];
      const double dx = rig.outputs(Pass::kBackward)[0].values[0];
      if (std::isinf(each.loss)) {
        EXPECT_EQ(loss, each.loss);
      } else {
        EXPECT_NEAR(loss, each.loss, 1e-6 * each.loss);
      }
      EXPECT_NEAR(dx, each.dx, 1e-6 * std::abs(each.dx));
    });
  }
}

// A mean over images stays finite where some are equal, whatever the range; NaN is not hidden.
TEST(Pairs, EqualImagesHaveTheLargestRatio) {
  for (const char* range : {"1", "255", "1e-6"}) {
    const LayerCase c{.keys = {{"data_range", range}}, .x = pair_of({2, 1, 2, 2})};
    const auto layer = make_layer("psnr", c);
    for (const double last : {4.0, std::nan("")}) {
      const LayerData data{.x = {{1, 2, 3, 4, 1, 2, 3, last}, {1, 2, 3, 4, 1, 2, 3, 4}, {0, 1}},
                           .dy = {{0, 0}}};
      for_each_here(*layer, [&](std::string_view id) {
        CaseRig rig(*layer, c, id, data, layer->passes());
        run_all(rig);
        const auto y = rig.outputs(Pass::kForward)[0].values;
        if (std::isnan(last)) {
          EXPECT_TRUE(std::isnan(y[0]));
        } else {
          EXPECT_NEAR(y[0], 2 * 1260 * std::log10(2.0), 1e-3);
        }
        EXPECT_EQ(y[1], 2);
      });
    }
  }
}

TEST(Pairs, AreLossesAndMetrics) {
  for (const LayerType* type : layer_types()) {
    const bool of_images = type->name == "psnr" || type->name == "ssim";
    LayerCase c{.x = of_images ? pair_of({2, 1, 12, 11}) : pair_of({2, 3})};
    if (of_images) c.keys = {{"data_range", "1"}};
    const bool loss =
        std::find(std::begin(kLosses), std::end(kLosses), type->name) != std::end(kLosses);
    const bool metric = of_images || type->name.starts_with("mean_");
    if (!loss && !metric) continue;
    const auto layer = make_layer(type->name, c);
    EXPECT_EQ(layer->is_loss(), loss) << type->name;
    EXPECT_EQ(layer->is_metric(), metric) << type->name;
    EXPECT_EQ(layer->larger_is_better(), of_images) << type->name;
    EXPECT_EQ(layer->has_gradient(0), loss) << type->name;
    EXPECT_FALSE(layer->has_gradient(1) || layer->has_gradient(2)) << type->name;
    EXPECT_EQ(layer->passes(), loss ? two_passes() : std::vector<Pass>{Pass::kForward});
    EXPECT_EQ(make_layer(type->name, c, DType::kFloat64)->outputs()[0],
              (TensorDesc{{loss ? 1 : 2}, DType::kFloat64}));
  }
}

std::string refusal(const char* type, const LayerCase& c) {
  return error_of<ConfigError>([&] { make_layer(type, c); });
}

TEST(Pairs, RefuseWhatDoesNotFit) {
  LayerCase c{.x = {{{4, 3, 8, 8}}, {{4, 3, 4, 4}}, rows_desc(4)}};
  EXPECT_TRUE(has(refusal("mse_loss", c), "tensors of one shape, type and layout",
                  "4x3x8x8 float32 nchw", "targets 4x3x4x4 float32 nchw"));
  c.x[1] = c.x[0];
  c.x[1].layout = Layout::kNHWC;
  EXPECT_TRUE(has(refusal("l1_loss", c), "nchw", "nhwc"));
  c.x[1] = c.x[0];
  c.x[2] = rows_desc(5);
  EXPECT_TRUE(has(refusal("mean_absolute_error", c), "takes rows 4 int32, not 5 int32"));
  c.x[2] = {{4}};
  EXPECT_TRUE(has(refusal("mse_loss", c), "takes rows 4 int32, not 4 float32"));
  c.x.pop_back();
  EXPECT_TRUE(
      has(refusal("mse_loss", c), "takes 3 inputs (the output of a layer, targets, rows), not 2"));
  const auto psnr = [](const Keys& keys, const Shape& shape) {
    return refusal("psnr", {.keys = keys, .x = pair_of(shape)});
  };
  EXPECT_TRUE(has(psnr({}, {2, 3}), "required key 'data_range' is missing"));
  EXPECT_TRUE(has(psnr({{"data_range", "0"}}, {2, 3}), "data_range"));
  EXPECT_TRUE(has(psnr({{"data_range", "1"}, {"border", "1"}}, {2, 3}), "images N,C,H,W", "2x3"));
  EXPECT_TRUE(has(psnr({{"data_range", "1"}, {"border", "2"}}, {2, 3, 9, 4}), "nothing is left"));
  for (const char* eps : {"0", "-1", "nan", "1e30"}) {
    const LayerCase charbonnier{.keys = {{"eps", eps}}, .x = pair_of({2, 3})};
    EXPECT_TRUE(has(refusal("charbonnier_loss", charbonnier), "eps")) << eps;
  }
}

TEST(Pairs, ALossOfLabelsNamesThoseOfTensors) {
  const LayerCase c{.x = {{{4, 3, 8, 8}}, labels_desc(4)}};
  EXPECT_TRUE(
      has(refusal("mse", c), "takes logits N x C", "mse_loss, l1_loss or charbonnier_loss"));
}

}  // namespace
}  // namespace duet
