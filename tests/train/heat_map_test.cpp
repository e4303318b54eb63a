#include "train/evaluate/heat_map.h"

#include <gtest/gtest.h>

namespace duet {
namespace {

void expect_values(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 2e-6) << i;
}

// The means of the gradients are 1 and -0.5; what they make negative becomes 0.
TEST(HeatMap, IsTheSumOfMapsByTheMeansOfTheirGradients) {
  const FeatureMaps features{2, 2, 3, {1, 2, 0, 0, -1, 3, 2, 0, 1, 1, 1, -2}};
  const FeatureMaps gradients{2, 2, 3, {1, 0, 2, 1, 1, 1, -1, -1, 0, 1, -2, 0}};
  const HeatMap map = grad_cam(features, gradients);
  EXPECT_EQ(map.height, 2);
  EXPECT_EQ(map.width, 3);
  EXPECT_EQ(map.values, (std::vector<double>{0, 2, 0, 0, 0, 4}));
}

// Values of scale_cam_image(scale_cam_image(map, size)) of PyPI's grad-cam 1.5.7, with OpenCV 5.0.0:
// larger, of another shape, and smaller (without an average of what a pixel covers).
TEST(HeatMap, IsFittedAsByGradCam) {
  const HeatMap small{2, 3, {0, 2, 0, 0, 0, 4}};
  const HeatMap larger = fitted(small, 4, 6);
  EXPECT_EQ(larger.height, 4);
  EXPECT_EQ(larger.width, 6);
  expect_values(larger.values, {0, 0.125,   0.375,   0.375,   0.125,   0,     //
                                0, 0.09375, 0.28125, 0.34375, 0.28125, 0.25,  //
                                0, 0.03125, 0.09375, 0.28125, 0.59375, 0.75,  //
                                0, 0,       0,       0.25,    0.75,    1});
  const HeatMap map{3, 4, {3, 1, 2, 8, 4, 4, 5, 1, 0, 9, 2, 6}};
  expect_values(
      fitted(map, 5, 7).values,
      {0.35897434, 0.27350426, 0.13675213, 0.17948717, 0.29059827, 0.70085466, 0.95726484,
       0.40683758, 0.35555553, 0.27350426, 0.3230769,  0.39999998, 0.5367521,  0.6222222,
       0.47863242, 0.47863242, 0.47863242, 0.5384615,  0.56410253, 0.29059827, 0.11965811,
       0.19145297, 0.4222222,  0.7914529,  0.6102564,  0.38974357, 0.44444445, 0.47863248,
       0,          0.38461536, 0.9999999,  0.65811956, 0.27350426, 0.5470085,  0.7179487});
  expect_values(fitted(map, 2, 3).values,
                {0.24705882, 0.03529413, 0.99999976, 0, 0.8823527, 0.6470587});
  // Scaled twice: 2e-7 / 3e-7, and that by itself + 1e-7.
  expect_values(fitted({1, 2, {2e-7, 0}}, 1, 2).values, {0.9999998, 0});
}

TEST(HeatMap, OfEqualValuesIsZero) {
  expect_values(fitted({1, 1, {3}}, 2, 2).values, {0, 0, 0, 0});
  expect_values(fitted({2, 2, {0, 0, 0, 0}}, 1, 3).values, {0, 0, 0});
}

TEST(HeatMap, IsDrawnHalfOverThePicture) {
  const HeatMap map{1, 5, {0, 0.25, 0.5, 0.75, 1}};
  const Image drawn = draw_over({1, 5, 1, {0, 0, 0, 0, 201}}, map);
  EXPECT_EQ(drawn.channels, 3);
  EXPECT_EQ(drawn.height, 1);
  EXPECT_EQ(drawn.width, 5);
  // Dark blue, blue with green, green, red with green, dark red on grey.
  EXPECT_EQ(drawn.pixels,
            (std::vector<uint8_t>{0, 0, 64, 0, 64, 128, 64, 128, 64, 128, 64, 0, 164, 101, 101}));
  const Image colour = draw_over({1, 1, 3, {10, 20, 30}}, {1, 1, {0.5}});
  EXPECT_EQ(colour.pixels, (std::vector<uint8_t>{69, 138, 79}));
}

}  // namespace
}  // namespace duet
