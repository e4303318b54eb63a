#include <gtest/gtest.h>

#include "layers/activation/activation.h"
#include "support/layer_case.h"

namespace duet {

std::vector<LayerCase> sigmoid_cases();

std::vector<LayerCase> silu_cases() {
  std::vector<LayerCase> cases = sigmoid_cases();
  cases.pop_back();
  // Forward only: PyTorch's gradient at an infinity is NaN, and a library may have a number there.
  cases.push_back(
      {.name = "non_finite", .x = {{{5, 17}}}, .data = Data::kNonFinite, .forward_only = true});
  return cases;
}

// As torch.nn.functional.silu in float64.
TEST(Silu, ValuesAndGradientsOfPyTorch) {
  const SiluFunction f;
  EXPECT_NEAR(f.forward(1.0), 0.7310585786300049, 1e-15);
  EXPECT_NEAR(f.forward(-2.0), -0.2384058440442351, 1e-15);
  EXPECT_EQ(f.gradient(0.0, 0.0), 0.5);
  EXPECT_NEAR(f.gradient(1.0, 0.0), 0.9276705118714867, 1e-15);
  EXPECT_NEAR(f.gradient(-2.0, 0.0), -0.09078424878489547, 1e-15);
}

}  // namespace duet
