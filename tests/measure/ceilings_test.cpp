#include "measure/time/ceilings.h"

#include <gtest/gtest.h>

#include <set>

#include "layers/layers.h"
#include "measure/time/measure_pass.h"
#include "support/layer_case.h"

namespace duet {
namespace {

TEST(Ceilings, OfTheCpuArePlausible) {
  Context context(Device::kCpu);
  const Ceilings ceilings = measure_ceilings(context);
  EXPECT_GT(ceilings.copy_bytes_per_second, 1e8);
  EXPECT_LT(ceilings.copy_bytes_per_second, 1e13);
  EXPECT_GT(ceilings.fp32_flops_per_second, 1e8);
  EXPECT_LT(ceilings.fp32_flops_per_second, 1e14);
}

TEST(Ceilings, TheFloorIsTheLongerOfProductsAndBytes) {
  const Ceilings ceilings = {.copy_bytes_per_second = 1e9, .fp32_flops_per_second = 1e9};
  const LayerCase c{.keys = {{"out_features", "10"}}, .x = {{{2, 100}}}};
  const auto linear = make_layer("linear", c);
  // 2 * 2 * 100 * 10 flops; x, w, b and y in bytes.
  EXPECT_EQ(linear->flops(Pass::kForward), 4000);
  EXPECT_EQ(least_bytes(*linear, Pass::kForward), 4 * (200 + 1000 + 10 + 20));
  EXPECT_DOUBLE_EQ(*floor_seconds(ceilings, *linear, Pass::kForward), 4.92e-6);
  Ceilings slow = ceilings;
  slow.fp32_flops_per_second = 1e8;
  EXPECT_DOUBLE_EQ(*floor_seconds(slow, *linear, Pass::kForward), 40e-6);
  slow.fp32_flops_per_second = 0;  // not measured
  EXPECT_FALSE(floor_seconds(slow, *linear, Pass::kForward).has_value());

  // Three inputs into one y; the gradients of two readers, and y, into one dx.
  const LayerCase s{.keys = {{"outputs", "2"}}, .x = {{{1000}}, {{1000}}, {{1000}}}};
  const auto sum = make_layer("add_relu", s);
  EXPECT_EQ(least_bytes(*sum, Pass::kForward), 4 * 4000);
  EXPECT_EQ(least_bytes(*sum, Pass::kBackward), 4 * 4000);

  const LayerCase r{.x = {{{1000}}}};
  const auto relu = make_layer("relu", r);
  EXPECT_EQ(relu->flops(Pass::kForward), 0);
  EXPECT_DOUBLE_EQ(*floor_seconds(ceilings, *relu, Pass::kBackward), 12e-6);
  EXPECT_DOUBLE_EQ(*floor_seconds(slow, *relu, Pass::kBackward), 12e-6);
}

// Values of 4 bytes that each pass of a layer moves, in the order of its passes.
struct LeastValues {
  std::string_view type;
  LayerCase c;
  std::vector<int> values;
};

std::vector<LeastValues> least_values() {
  const LayerCase row{.x = {{{6, 5}}}};
  const LayerCase loss{.x = {{{6, 5}}, {{6}, DType::kInt32}}};
  const LayerCase targets{.x = {{{6, 5}}, {{6, 5}}, {{6}, DType::kInt32}}};
  const LayerCase image{.x = {{{2, 3, 4, 4}}}};
  const LayerCase images{.x = {{{2, 1, 12, 11}}, {{2, 1, 12, 11}}, {{2}, DType::kInt32}}};
  const LayerCase fours{.x = {{{2, 4, 4, 3}}}};
  const LayerCase pairs{.x = {{{6, 5}}, {{6, 5}}}};
  const auto with = [](LayerCase c, decltype(LayerCase::keys) keys) {
    c.keys = std::move(keys);
    return c;
  };
  const auto halves = with(image, {{"kernel", "2"}});
  const auto to_two = with(row, {{"out_features", "2"}});
  constexpr int kW = 2 * 5, kB = 2;                  // of linear
  constexpr int kImage = 96, kQuarter = 24, kC = 3;  // an image, its halves, a value a channel
  constexpr int kConv = 2 * 3 * 3 * 3, kConvY = 16;  // 2 filters, 2 x 2 outputs of each
  const auto conv = with(image, {{"out_channels", "2"}, {"kernel", "3"}});
  const auto conv_pool =
      with(image, {{"out_channels", "2"}, {"kernel", "3"}, {"pool_kernel", "2"}});
  return {
      {"relu", row, {60, 90}},
      {"leaky_relu", row, {60, 90}},
      {"sigmoid", row, {60, 90}},
      {"tanh", row, {60, 90}},
      {"silu", row, {60, 90}},
      {"gelu", row, {60, 90}},
      {"softmax", row, {60, 90}},
      {"softmax_dropout", row, {60, 90}},
      {"dropout", row, {60, 60}},
      {"add", pairs, {90, 90}},
      {"add_relu", with(pairs, {{"outputs", "3"}}), {90, 90 + 30 + 30}},
      {"split", row, {90, 90}},
      {"concat", pairs, {120, 120}},
      {"flatten", image, {}},  // a view
      {"reorder", with(image, {{"to", "nhwc"}}), {2 * kImage, 2 * kImage}},
      {"pixel_shuffle", with(fours, {{"scale", "2"}}), {2 * kImage, 2 * kImage}},
      {"max_pool2d", halves, {kImage + kQuarter, kImage + kQuarter}},
      {"avg_pool2d", halves, {kImage + kQuarter, kImage + kQuarter}},
      {"global_avg_pool2d", image, {kImage + 6, kImage + 6}},
      {"batch_norm1d", row, {60 + 4 * 5, 90 + 3 * 5}},
      {"batch_norm1d_relu", row, {60 + 4 * 5, 90 + 3 * 5}},
      {"batch_norm2d", image, {2 * kImage + 4 * kC, 3 * kImage + 3 * kC}},
      {"batch_norm2d_relu", image, {2 * kImage + 4 * kC, 3 * kImage + 3 * kC}},
      {"batch_norm2d_relu_pool",
       with(image, {{"pool_kernel", "2"}}),
       {kImage + kQuarter + 4 * kC, 2 * kImage + kQuarter + 3 * kC}},
      {"batch_norm1d_relu_softmax", row, {60 + 4 * 5, 90 + 3 * 5}},
      {"layer_norm", row, {60 + 2 * 5, 90 + 3 * 5}},
      {"linear", to_two, {30 + kW + kB + 12, 30 + 12 + kW + kB, 12 + kW + 30}},
      {"linear_relu", to_two, {30 + kW + kB + 12, 30 + 2 * 12 + kW + kB, 12 + kW + 30}},
      {"conv2d",
       conv,
       {kImage + kConv + 2 + kConvY, kImage + kConvY + kConv + 2, kConvY + kConv + kImage}},
      {"conv2d_pool_relu",
       conv_pool,
       {kImage + kConv + 2 + 4, kImage + 4 + kConv + 2, 4 + kConv + kImage}},
      // Labels, the loss, and two counts.
      {"softmax_cross_entropy", loss, {30 + 6 + 3, 30 + 6 + 3 + 30}},
      {"mse", loss, {30 + 6 + 3, 30 + 6 + 3 + 30}},
      {"bce_with_logits", loss, {30 + 6 + 3, 30 + 6 + 3 + 30}},
      {"multi_margin", loss, {30 + 6 + 3, 30 + 6 + 3 + 30}},
      {"top_k_accuracy", loss, {30 + 6 + 2}},
      // Targets, rows, the loss, and two counts; or two totals.
      {"mse_loss", targets, {60 + 6 + 3, 60 + 6 + 3 + 30}},
      {"l1_loss", targets, {60 + 6 + 3, 60 + 6 + 3 + 30}},
      {"binary_cross_entropy_loss", targets, {60 + 6 + 3, 60 + 6 + 3 + 30}},
      {"charbonnier_loss", targets, {60 + 6 + 3, 60 + 6 + 3 + 30}},
      {"mean_absolute_error", targets, {60 + 6 + 2}},
      {"mean_squared_error", targets, {60 + 6 + 2}},
      {"ssim", with(images, {{"data_range", "1"}}), {2 * 264 + 2 + 2}},
      {"psnr", with(targets, {{"data_range", "1"}}), {60 + 6 + 2}},
  };
}

TEST(Ceilings, APassMovesWhatItsDefinitionReadsAndWrites) {
  std::set<std::string_view> covered;
  for (const auto& [type, c, values] : least_values()) {
    covered.insert(type);
    const auto layer = make_layer(type, c);
    ASSERT_EQ(layer->passes().size(), values.size()) << type;
    for (size_t i = 0; i < values.size(); ++i) {
      const Pass pass = layer->passes()[i];
      EXPECT_EQ(least_bytes(*layer, pass), 4 * values[i]) << type << " " << to_string(pass);
    }
  }
  for (const LayerType* type : layer_types()) EXPECT_TRUE(covered.count(type->name)) << type->name;
}

TEST(Ceilings, WithoutAWeightNoneMoves) {
  const LayerCase c{.keys = {{"affine", "false"}}, .x = {{{6, 5}}}};
  EXPECT_EQ(least_bytes(*make_layer("batch_norm1d", c), Pass::kBackward), 4 * 90);
  EXPECT_EQ(least_bytes(*make_layer("layer_norm", c), Pass::kBackward), 4 * 90);
}

TEST(Ceilings, TimesThatNoMachineReachesAreRefused) {
  const Ceilings cpu = {.copy_bytes_per_second = 1e9, .fp32_flops_per_second = 1e9};
  const LayerCase c{.keys = {{"out_features", "10"}}, .x = {{{2, 100}}}};
  const auto linear = make_layer("linear", c);
  const auto least = [&](const Ceilings& ceilings, Device device) {
    return least_seconds(ceilings, device, *linear, Pass::kForward);
  };
  EXPECT_DOUBLE_EQ(least(cpu, Device::kCpu), 4e-7);  // a tenth of its products
  EXPECT_EQ(least(cpu, Device::kGpu), 0);            // these are another device's
  EXPECT_EQ(least({}, Device::kCpu), 0);
  Ceilings gpu = {.copy_bytes_per_second = 1e9, .fp32_flops_per_second = 1e12};
  gpu.launch_seconds = 1e-7;
  EXPECT_DOUBLE_EQ(least(gpu, Device::kGpu), 4.92e-7);  // its bytes from a cache
  gpu.launch_seconds = 1e-5;
  EXPECT_DOUBLE_EQ(least(gpu, Device::kGpu), 5e-6);

  PassMeasurement possible;
  possible.warm = Times{.seconds = {4.1e-7, 4.2e-7}};
  refuse_impossible_times(possible, 4e-7);
  EXPECT_TRUE(possible.warm && possible.examination.passed());
  PassMeasurement impossible = possible;
  refuse_impossible_times(impossible, 4.3e-7);
  EXPECT_FALSE(impossible.warm);
  ASSERT_EQ(impossible.examination.faults.size(), 1u);
  EXPECT_EQ(impossible.examination.faults[0].kind, FaultKind::kImpossiblyFast);
}

}  // namespace
}  // namespace duet
