// The references on a GPU are held to cpu_reference in double, on every case of their layers.
#include "layers/gpu_reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "layers/layer_cases.h"
#include "measure/check/agreement.h"
#include "support/gpu_test.h"

namespace duet {
namespace {

class GpuReference : public GpuTest {};

constexpr double kRounding = 1e-13;

void expect_same(const Reference& expected, const Reference& found, const std::string& where) {
  ASSERT_EQ(expected.device, Device::kCpu);
  ASSERT_EQ(found.device, Device::kGpu);
  ASSERT_EQ(expected.outputs.size(), found.outputs.size()) << where;
  for (size_t i = 0; i < expected.outputs.size(); ++i) {
    const auto& [pass, wanted] = expected.outputs[i];
    for (size_t j = 0; j < wanted.size(); ++j) {
      const NamedValues& output = found.of(pass)[j];
      EXPECT_EQ(output.name, wanted[j].name);
      double square = 0;
      for (double value : wanted[j].values) square += std::isfinite(value) ? value * value : 0;
      const double rms = std::sqrt(square / static_cast<double>(wanted[j].values.size()));
      const Limit limit = {.kind = Limit::Kind::kElementwise,
                           .rtol = kRounding,
                           .atol = kRounding * std::max(rms, 1.0)};
      const Agreement a = compare(wanted[j].values, output.values, limit);
      EXPECT_TRUE(a.agrees) << where << ", " << to_string(pass) << ", " << output.name << ": "
                            << a.to_string() << " at " << index_text(output.desc, a.worst);
      EXPECT_LT(a.rms_relative, kRounding) << where << ", " << to_string(pass);
    }
  }
}

void check(const Layer& layer, const LayerData& data, const LayerSituation& situation,
           const std::vector<Pass>& passes, const std::string& where) {
  const auto on = [&](Device device) {
    return run_reference(layer, data, situation, passes, nullptr, device);
  };
  expect_same(on(Device::kCpu), on(Device::kGpu), where + ", " + layer.problem_text());
}

TEST_F(GpuReference, EveryCaseAsOnTheCpu) {
  size_t cases = 0;
  for (const auto& [type, of_type] : layer_cases()) {
    for (const LayerCase& c : of_type) {
      const auto layer = make_layer(type, c);
      if (!has_gpu_reference(*layer)) continue;
      ++cases;
      const auto passes = c.forward_only ? std::vector<Pass>{Pass::kForward} : layer->passes();
      check(*layer, make_data(c, *layer), c.situation(), passes, std::string(type) + " " + c.name);
    }
  }
  EXPECT_GT(cases, 30u);
}

// More than a block of threads in every direction, and no multiple of it.
TEST_F(GpuReference, SeveralBlocksAsOnTheCpu) {
  const std::pair<std::string_view, LayerCase> rows[] = {
      {"linear", {.name = "n300", .keys = {{"out_features", "67"}}, .x = {{{300, 131}}}}},
      {"linear", {.name = "n5", .keys = {{"out_features", "515"}}, .x = {{{5, 1030}}}}},
      {"conv2d",
       {.name = "large",
        .keys = {{"out_channels", "12"},
                 {"kernel", "[3, 5]"},
                 {"stride", "[2, 1]"},
                 {"padding", "2"},
                 {"groups", "2"}},
        .x = {{{7, 6, 31, 29}}}}},
      {"conv2d",
       {.name = "nhwc",
        .keys = {{"out_channels", "9"}, {"kernel", "3"}, {"dilation", "2"}, {"padding", "1"}},
        .x = {{{6, 5, 23, 26}, DType::kFloat32, Layout::kNHWC}}}},
      {"conv2d_pool_relu",
       {.name = "overlapping",
        .keys = {{"out_channels", "10"},
                 {"kernel", "3"},
                 {"pool_kernel", "3"},
                 {"pool_stride", "2"},
                 {"pool_padding", "1"}},
        .x = {{{6, 4, 21, 25}}}}},
      {"conv2d_pool_relu",
       {.name = "nhwc",
        .keys = {{"out_channels", "10"}, {"kernel", "5"}, {"padding", "2"}, {"pool_kernel", "2"}},
        .x = {{{5, 4, 22, 19}, DType::kFloat32, Layout::kNHWC}}}},
  };
  for (const auto& [type, c] : rows) {
    const auto layer = make_layer(type, c);
    check(*layer, make_data(c, *layer), {}, layer->passes(), std::string(type) + " " + c.name);
  }
}

TEST_F(GpuReference, TakesTheLargeProblemsAlone) {
  const auto device = [](const char* features, int64_t batch) {
    const LayerCase c = {.name = "", .keys = {{"out_features", features}}, .x = {{{batch, 1024}}}};
    const auto layer = make_layer("linear", c);
    return run_reference(*layer, random_data(*layer, 1), {}, {Pass::kForward}).device;
  };
  EXPECT_EQ(device("10", 64), Device::kCpu);
  EXPECT_EQ(device("1024", 256), Device::kGpu);
}

}  // namespace
}  // namespace duet
