#include "layers/linear/linear.h"

#include <gtest/gtest.h>

#include "support/layer_case.h"
#include "support/text.h"

namespace duet {

std::vector<LayerCase> linear_cases() {
  const auto sized = [](int64_t n, int64_t in, int64_t out, bool bias = true) {
    return LayerCase{
        .name = "n" + std::to_string(n) + "_in" + std::to_string(in) + "_out" +
                std::to_string(out) + (bias ? "" : "_no_bias"),
        .keys = {{"out_features", std::to_string(out)}, {"bias", bias ? "true" : "false"}},
        .x = {{{n, in}}}};
  };
  std::vector<LayerCase> cases = {
      sized(1, 1, 1), sized(1, 7, 3), sized(5, 1, 4), sized(4, 3, 1), sized(13, 31, 17),
      sized(13, 31, 17, false), sized(2, 784, 10), sized(64, 128, 64), sized(65, 129, 127),
      sized(3, 1031, 33, false),
      // Long sums of few outputs, which kernels split; the two layers of a small network; both with
      // every size a multiple of 4 and with only one.
      sized(1, 3200, 256), sized(64, 3200, 256), sized(64, 256, 10), sized(260, 36, 132),
      sized(7, 2048, 6), sized(600, 10, 20), sized(37, 64, 1),
      // Tiles of 128 x 128: one with room to spare, cut ones alone, more than there are
      // multiprocessors in each pass.
      sized(4, 4, 4), sized(300, 200, 264), sized(200, 2052, 132), sized(1300, 20, 1700, false),
      sized(1300, 1700, 20), sized(20, 1700, 1300)};
  for (LayerCase& c : cases) c.gradient_check = c.x[0].elements() < 1000;
  LayerCase exact = sized(33, 65, 35);
  exact.name = "integers";
  exact.data = Data::kIntegers;
  exact.exact = true;
  cases.push_back(exact);
  for (LayerCase tf32 :
       {sized(64, 257, 96), sized(5, 44, 60), sized(300, 200, 264), sized(129, 2052, 132, false)}) {
    tf32.name += "_tf32";
    tf32.options.math = Math::kTF32;
    tf32.gradient_check = false;  // of the reference in double, which knows no math
    cases.push_back(tf32);
  }
  return cases;
}

namespace {

std::string mistake(const TensorDesc& x) {
  return error_of<ShapeError>([&] { linear_problem({.out_features = 10}, x, {}); });
}

TEST(Linear, TakesFeatures) {
  const LinearProblem problem =
      linear_problem({.out_features = 10}, {{64, 256}}, {.math = Math::kTF32});
  EXPECT_EQ(problem.y_desc().shape, (Shape{64, 10}));
  EXPECT_EQ(problem.to_string(), "n=64 in=256 out=10 bias=true tf32 float32");
  EXPECT_EQ(mistake({{64, 128, 5, 5}}),
            "linear takes features (N x F), but its input is 64x128x5x5; put a flatten layer "
            "before it");
  EXPECT_EQ(mistake({{64}}), "linear takes features (N x F), but its input is 64");
}

TEST(Linear, ParametersAreAsPyTorchs) {
  const LinearProblem problem = linear_problem({.out_features = 10}, {{64, 256}}, {});
  const auto parameters = linear_parameters(problem, Init::kDefault);
  ASSERT_EQ(parameters.size(), 2u);
  EXPECT_EQ(parameters[0].name, "weight");
  EXPECT_EQ(parameters[0].desc.shape, (Shape{10, 256}));
  EXPECT_EQ(parameters[0].fan_in, 256);
  EXPECT_EQ(parameters[0].fan_out, 10);
  EXPECT_EQ(parameters[1].name, "bias");
  EXPECT_EQ(parameters[1].desc.shape, (Shape{10}));
  EXPECT_EQ(parameters[1].fan_in, 256);  // a bias is drawn within 1/sqrt(fan_in) of its weights
  EXPECT_EQ(linear_parameters(problem, Init::kHeNormal)[1].init, Init::kZeros);
  EXPECT_EQ(linear_parameters({.in = 3, .out = 2, .bias = false}, Init::kDefault).size(), 1u);
}

}  // namespace

}  // namespace duet
