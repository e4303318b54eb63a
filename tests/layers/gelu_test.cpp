#include <gtest/gtest.h>

#include "layers/activation/activation.h"
#include "support/layer_case.h"
#include "support/text.h"

namespace duet {

std::vector<LayerCase> sigmoid_cases();

std::vector<LayerCase> gelu_cases() {
  std::vector<LayerCase> cases = sigmoid_cases();
  const size_t count = cases.size();
  for (size_t i = 0; i < count; ++i) {
    LayerCase by_tanh = cases[i];
    by_tanh.name += "_tanh";
    by_tanh.keys = {{"approximate", "tanh"}};
    cases.push_back(by_tanh);
  }
  return cases;
}

namespace {

// As torch.nn.functional.gelu in float64.
TEST(Gelu, ValuesAndGradientsOfPyTorch) {
  const GeluFunction f;
  EXPECT_NEAR(f.forward(1.0), 0.8413447460685429, 1e-15);
  EXPECT_NEAR(f.forward(-2.0), -0.0455002638963584, 1e-15);
  EXPECT_EQ(f.gradient(0.0, 0.0), 0.5);
  EXPECT_NEAR(f.gradient(1.0, 0.0), 1.0833154705876864, 1e-14);
  const GeluTanhFunction t;
  EXPECT_NEAR(t.forward(1.0), 0.8411919906082768, 1e-14);
  EXPECT_NEAR(t.forward(-2.0), -0.04540230591222494, 1e-15);
  EXPECT_NEAR(t.gradient(1.0, 0.0), 1.0829640838457826, 1e-14);
}

TEST(Gelu, TheCudnnFamilyTakesTheSharedEntry) {
  int shared = 0;
  for (const ImplInfo& info : gelu_type().implementations()) {
    EXPECT_NE(family_of(info.id), Family::kCudnn) << info.id;
    shared += info.shared;
  }
  EXPECT_EQ(shared, DUET_WITH_CUDA);
}

TEST(Gelu, RefusesAnUnknownApproximation) {
  const std::string message = error_of([] {
    make_layer("gelu", {.name = "", .keys = {{"approximate", "erf"}}, .x = {{{2, 3}}}});
  });
  EXPECT_TRUE(has(message, "tanh")) << message;
}

}  // namespace
}  // namespace duet
