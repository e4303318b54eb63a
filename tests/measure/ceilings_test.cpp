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
  EXPECT_EQ(least_bytes(*linear), 4 * (200 + 1000 + 10 + 20));
  EXPECT_DOUBLE_EQ(*floor_seconds(ceilings, *linear, Pass::kForward), 4.92e-6);
  Ceilings slow = ceilings;
  slow.fp32_flops_per_second = 1e8;
  EXPECT_DOUBLE_EQ(*floor_seconds(slow, *linear, Pass::kForward), 40e-6);
  slow.fp32_flops_per_second = 0;  // not measured
  EXPECT_FALSE(floor_seconds(slow, *linear, Pass::kForward).has_value());

  const LayerCase r{.x = {{{1000}}}};
  const auto relu = make_layer("relu", r);
  EXPECT_EQ(relu->flops(Pass::kForward), 0);
  EXPECT_DOUBLE_EQ(*floor_seconds(ceilings, *relu, Pass::kBackward), 8e-6);
  EXPECT_DOUBLE_EQ(*floor_seconds(slow, *relu, Pass::kBackward), 8e-6);
}

}  // namespace
}  // namespace duet
