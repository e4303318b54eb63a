// Paths of linear's kernels that take larger matrices than the layer's cases.
#include <gtest/gtest.h>

#include "support/gpu_test.h"
#include "support/layer_driver.h"

namespace duet {
namespace {

class LinearKernels : public GpuTest {};

// Tiles of 128 x 256, fifteen below each other: clusters of two bring their columns together, and the last has no other.
TEST_F(LinearKernels, PairsOfTilesShareTheirColumns) {
  for (const Math math : {Math::kTF32, Math::kBF16}) {
    LayerCase c{.name = "pairs", .keys = {{"out_features", "1912"}}, .x = {{{1900, 2040}}}};
    c.options.math = math;
    const auto layer = make_layer("linear", c);
    if (layer->unsupported("custom_wgmma", Pass::kForward)) GTEST_SKIP() << "not of this GPU";
    const CheckData check_data = make_check_data("linear", c);
    for (const Pass pass : layer->passes())
      check_pass(*layer, c.name, "custom_wgmma", pass, check_data);
  }
}

}  // namespace
}  // namespace duet
