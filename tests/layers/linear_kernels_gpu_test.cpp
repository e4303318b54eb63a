// Paths of linear's kernels that take larger matrices than the layer's cases.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "support/gpu_test.h"
#include "support/layer_driver.h"

namespace duet {
namespace {

class LinearKernels : public GpuTest {};

void check_linear(const std::string& name, Math math, const std::string& implementation, int n,
                  int in, int out) {
  LayerCase c{.name = name, .keys = {{"out_features", std::to_string(out)}}, .x = {{{n, in}}}};
  c.options.math = math;
  const auto layer = make_layer("linear", c);
  if (layer->unsupported(implementation, Pass::kForward))
    GTEST_SKIP() << "the implementation does not support this GPU";
  const CheckData check_data = make_check_data("linear", c);
  for (const Pass pass : layer->passes())
    check_pass(*layer, c.name, implementation, pass, check_data);
}

// More tiles than blocks run at once, which take several each; the last of either axis are smaller.
TEST_F(LinearKernels, BlocksTakeSeveralTiles) {
  for (const Math math : {Math::kTF32, Math::kBF16})
    check_linear("tiles", math, "custom_wgmma", 3000, 520, 2008);
}

// As many tiles of 64 columns as fit a multiprocessor each, and sums of few steps.
TEST_F(LinearKernels, BlocksTakeATileEach) {
  for (const auto [n, in, out] : {std::array{500, 1000, 520}, {300, 360, 264}, {130, 2056, 1000}}) {
    for (const Math math : {Math::kTF32, Math::kBF16})
      check_linear("tile", math, "custom_wgmma", n, in, out);
    check_linear("tile", Math::kFP32, "custom_wgmma_3xtf32", n, in, out);
  }
}

// Rows that one instruction takes, and fewer: outputs and features that are no whole tiles, and every width of them; and so many
// outputs that a thread has 16 in backward_filter.
TEST_F(LinearKernels, FewRows) {
  constexpr std::array<int, 3> kProblems[] = {{8, 1282, 1000}, {16, 1000, 2100}, {11, 3004, 36},
                                              {1, 10, 2055},   {9, 1023, 3},     {16, 36, 17},
                                              {13, 2052, 4100}};
  for (const auto [n, in, out] : kProblems) {
    for (const Math math : {Math::kTF32, Math::kBF16})
      check_linear("rows", math, "custom_mma", n, in, out);
    for (const Math math : {Math::kFP32, Math::kBF16})
      check_linear("rows", math, "custom_register_tiled", n, in, out);
  }
}

}  // namespace
}  // namespace duet
