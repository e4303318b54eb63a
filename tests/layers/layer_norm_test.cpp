#include "layers/layer_norm/layer_norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "measure/check/agreement.h"
#include "support/case_rig.h"
#include "support/text.h"

namespace duet {

std::vector<LayerCase> layer_norm_cases() {
  std::vector<LayerCase> cases = {
      {.name = "one_value", .x = {{{5, 1}}}, .gradient_check = false},
      {.name = "two_values", .x = {{{9, 2}}}, .gradient_check = false},
      {.name = "n7_c13", .x = {{{7, 13}}}},
      {.name = "n64_c128", .x = {{{64, 128}}}, .gradient_check = false},
      {.name = "sequence_3x5x33", .x = {{{3, 5, 33}}}},
      {.name = "two_axes", .keys = {{"axes", "2"}}, .x = {{{3, 5, 12}}}},
      {.name = "rows_of_an_image", .x = {{{2, 3, 5, 8}}}},
      {.name = "planes", .keys = {{"axes", "2"}}, .x = {{{2, 3, 5, 7}}}},
      {.name = "images", .keys = {{"axes", "3"}}, .x = {{{4, 3, 5, 7}}}},
      {.name = "images_nhwc",
       .keys = {{"axes", "3"}},
       .x = {{{2, 3, 5, 7}, DType::kFloat32, Layout::kNHWC}}},
      {.name = "eps", .keys = {{"eps", "0.1"}}, .x = {{{6, 20}}}},
      // A warp a row to 1024 columns, then a block; 8192 fit into its registers.
      {.name = "c511", .x = {{{9, 511}}}, .gradient_check = false},
      {.name = "c512", .x = {{{67, 512}}}, .gradient_check = false},
      {.name = "c1024", .x = {{{5, 1024}}}, .gradient_check = false},
      {.name = "c1025", .x = {{{5, 1025}}}, .gradient_check = false},
      {.name = "c4096", .x = {{{3, 4096}}}, .gradient_check = false},
      {.name = "c8192", .x = {{{3, 8192}}}, .gradient_check = false},
      {.name = "c8195", .x = {{{3, 8195}}}, .gradient_check = false},
      {.name = "many_rows", .x = {{{20001, 3}}}, .gradient_check = false},
      {.name = "many_rows_of_260", .x = {{{4507, 260}}}, .gradient_check = false},
      {.name = "many_rows_of_700", .x = {{{1201, 700}}}, .gradient_check = false},
      {.name = "many_rows_of_1100", .x = {{{1201, 1100}}}, .gradient_check = false},
      {.name = "shifted", .x = {{{17, 50}}}, .data = Data::kShifted, .gradient_check = false},
      {.name = "small", .x = {{{9, 40}}}, .scale = 1e-4, .gradient_check = false},
      {.name = "non_finite", .x = {{{40, 10}}}, .data = Data::kNonFinite, .forward_only = true},
  };
  const size_t count = cases.size();
  for (size_t i = 0; i < count; ++i) {
    LayerCase plain = cases[i];
    plain.name += "_plain";
    plain.keys.emplace_back("affine", "false");
    cases.push_back(plain);
  }
  return cases;
}

namespace {

// Rows 1 2 3 6 (mean 3, variance 3.5) and 0 4 0 4 (2 and 4), with eps 0.5 for the first and a
// variance of 4.5 for the second.
const LayerCase kByHand = {.name = "by_hand", .keys = {{"eps", "0.5"}}, .x = {{{2, 4}}}};

std::vector<NamedValues> outputs_of(std::string_view id, Pass pass) {
  const auto layer = make_layer("layer_norm", kByHand, DType::kFloat64);
  const LayerData data = {.x = {{1, 2, 3, 6, 0, 4, 0, 4}},
                          .w = {{1, 2, 3, 4}, {0, 0, 0, 1}},
                          .dy = {{1, 1, 0, 0, 0, 0, 1, 0}}};
  CaseRig runner(*layer, kByHand, id, data, layer->passes());
  runner.run(Pass::kForward);
  if (pass != Pass::kForward) runner.run(pass);
  return runner.outputs(pass);
}

void expect_near(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-12) << i;
}

// As torch.nn.LayerNorm(4, eps=0.5), worked out by hand.
TEST(LayerNorm, ValuesAndGradientsOfPyTorch) {
  const double z = 2 / std::sqrt(4.5), inverse = 1 / std::sqrt(4.5);
  expect_near(outputs_of("cpu_reference", Pass::kForward)[0].values,
              {-1, -1, 0, 7, -z, 2 * z, -3 * z, 4 * z + 1});
  const auto gradients = outputs_of("cpu_reference", Pass::kBackward);
  ASSERT_EQ(gradients.size(), 3u);
  // First row: g = 1 2 0 0 and z = -1 -0.5 0 1.5; the sums are 3 and -2. Second: g = 0 0 3 0; the
  // sums are 3 and -3 z.
  const double p = -3 * z / 4;
  expect_near(gradients[0].values,
              {0.5 * (1 - 0.75 - 0.5), 0.5 * (2 - 0.75 - 0.25), 0.5 * -0.75, 0.5 * (-0.75 + 0.75),
               inverse * (-0.75 + z * p), inverse * (-0.75 - z * p), inverse * (2.25 + z * p),
               inverse * (-0.75 - z * p)});
  expect_near(gradients[1].values, {-1, -0.5, -z, 0});
  expect_near(gradients[2].values, {1, 1, 1, 0});
}

TEST(LayerNorm, ParametersHaveTheShapeOfARow) {
  const auto layer =
      make_layer("layer_norm", {.name = "", .keys = {{"axes", "2"}}, .x = {{{2, 3, 4, 5}}}});
  ASSERT_EQ(layer->parameters().size(), 2u);
  EXPECT_EQ(layer->parameters()[0].name, "weight");
  EXPECT_EQ(layer->parameters()[0].init, Init::kOnes);
  EXPECT_EQ(layer->parameters()[1].name, "bias");
  EXPECT_EQ(layer->parameters()[1].init, Init::kZeros);
  for (const ParameterSpec& p : layer->parameters()) EXPECT_EQ(p.desc.shape, (Shape{4, 5}));
}

TEST(LayerNorm, RefusesWhatDoesNotFit) {
  const auto mistake = [](const Shape& x, const char* key, const char* value) {
    return error_of([&] {
      make_layer("layer_norm", {.name = "", .keys = {{key, value}}, .x = {{x}}});
    });
  };
  EXPECT_TRUE(has(mistake({4, 4}, "axes", "2"), "4x4 has 2"));
  EXPECT_TRUE(has(mistake({4}, "axes", "1"), "the last 1 axis"));
  EXPECT_NE(mistake({4, 4}, "axes", "4"), "");
  EXPECT_TRUE(has(mistake({4, 4}, "eps", "0"), "must be above 0"));
  for (const char* eps : {"-1", "1e39", "1e7", "inf"}) {
    EXPECT_TRUE(has(mistake({4, 4}, "eps", eps), "expected a number from 0 to")) << eps;
  }
}

// The variance as the mean of squares less the square of the mean: wrong where the mean is large.
TEST(LayerNorm, LimitsFindSumsThatCancel) {
  const LayerCase c = {
      .name = "", .keys = {{"affine", "false"}}, .x = {{{5, 64}}}, .data = Data::kShifted};
  const auto layer = make_layer("layer_norm", c);
  const LayerData data = make_data(c, *layer);
  const Reference reference = run_reference(*layer, data, {}, {Pass::kForward});
  const NamedValues& expected = reference.of(Pass::kForward)[0];
  std::vector<double> found(expected.values.size());
  for (size_t row = 0; row < found.size(); row += 64) {
    float sum = 0, squares = 0;
    for (size_t i = row; i < row + 64; ++i) {
      const auto x = static_cast<float>(data.x[0][i]);
      sum += x;
      squares += x * x;
    }
    const float mean = sum / 64, var = std::max(0.0f, squares / 64 - mean * mean);
    for (size_t i = row; i < row + 64; ++i) {
      found[i] = (static_cast<float>(data.x[0][i]) - mean) / std::sqrt(var + 1e-5f);
    }
  }
  const Limit limit = limit_of(*layer, Pass::kForward, layer->outputs()[0], false, Math::kFP32);
  EXPECT_GT(compare(expected.values, found, limit, expected.sizes).share_of_limit, 2);
}

}  // namespace
}  // namespace duet
