#include "measure/ceilings.h"

#include <gtest/gtest.h>

#include "measure/measure_pass.h"
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

  // Three inputs into one y, and the gradients of two readers into one dx.
  const LayerCase s{.keys = {{"outputs", "2"}}, .x = {{{1000}}, {{1000}}, {{1000}}}};
  const auto sum = make_layer("add_relu", s);
  EXPECT_EQ(least_bytes(*sum, Pass::kForward), 4 * 4000);
  EXPECT_EQ(least_bytes(*sum, Pass::kBackward), 3 * 4000);

  const LayerCase r{.x = {{{1000}}}};
  const auto relu = make_layer("relu", r);
  EXPECT_EQ(relu->flops(Pass::kForward), 0);
  EXPECT_DOUBLE_EQ(*floor_seconds(ceilings, *relu, Pass::kBackward), 8e-6);
  EXPECT_DOUBLE_EQ(*floor_seconds(slow, *relu, Pass::kBackward), 8e-6);
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
