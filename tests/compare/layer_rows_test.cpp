// The numbers of a row, from times that were made up.
#include "compare/results/layer_rows.h"

#include <gtest/gtest.h>

#include "support/layer_case.h"

namespace duet {
namespace {

TEST(LayerRows, RatesAreOfTheMedian) {
  const auto layer =
      make_layer("linear", {.name = "", .keys = {{"out_features", "30"}}, .x = {{{10, 20}}}});
  PassMeasurement measurement;
  measurement.warm = Times{.seconds = {1e-6, 2e-6, 5e-6, 8e-6, 9e-6}, .calls = 1};
  const auto row = measured_row(
      {.name = "fc", .layer = layer.get(), .pass = Pass::kForward, .floor_seconds = 2e-6},
      {{.layer = layer.get(), .id = "cpu_blas", .measurement = &measurement}});
  const double flops = 2 * 10 * 20 * 30;
  const double bytes = 4 * (10 * 20 + 30 * 20 + 30 + 10 * 30);  // x, weight, bias, y
  EXPECT_EQ(row.flops, flops);
  EXPECT_EQ(row.bytes, bytes);
  EXPECT_DOUBLE_EQ(row.floor_us, 2.0);
  const MeasuredArm& arm = *row.arm(0);
  EXPECT_DOUBLE_EQ(arm.us.median, 5.0);
  EXPECT_DOUBLE_EQ(arm.us.p20, 1.8);
  EXPECT_DOUBLE_EQ(arm.us.p80, 8.2);
  EXPECT_DOUBLE_EQ(arm.gflop_per_s, flops / 5e-6 / 1e9);
  EXPECT_DOUBLE_EQ(arm.gb_per_s, bytes / 5e-6 / 1e9);
  EXPECT_DOUBLE_EQ(arm.share_of_floor, 2.0 / 5.0);
}

}  // namespace
}  // namespace duet
