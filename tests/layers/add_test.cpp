#include <gtest/gtest.h>

#include "core/error.h"
#include "measure/check/layer_rig.h"
#include "support/layer_case.h"

namespace duet {
namespace {

std::vector<TensorDesc> images(size_t count, Layout layout = Layout::kNCHW) {
  return std::vector<TensorDesc>(count, {{2, 3, 5, 7}, DType::kFloat32, layout});
}

}  // namespace

std::vector<LayerCase> add_cases() {
  return {
      {.name = "one_element", .x = {{{1, 1}}, {{1, 1}}}},
      {.name = "features_7x13", .x = {{{7, 13}}, {{7, 13}}}},
      {.name = "images_nchw", .x = images(2)},
      {.name = "images_nhwc", .x = images(2, Layout::kNHWC)},
      {.name = "three", .x = images(3)},
      {.name = "eight", .x = images(8)},
      {.name = "nine", .x = images(9)},
      {.name = "seventeen", .x = images(17)},
      {.name = "vector_length_1027", .x = {{{1, 1027}}, {{1, 1027}}}},
      {.name = "large",
       .x = {{{8, 16, 33, 31}}, {{8, 16, 33, 31}}, {{8, 16, 33, 31}}},
       .gradient_check = false},
      {.name = "integers",
       .x = {{{5, 17}}, {{5, 17}}, {{5, 17}}},
       .data = Data::kIntegers,
       .exact = true},
      {.name = "non_finite", .x = {{{5, 17}}, {{5, 17}}}, .data = Data::kNonFinite},
  };
}

std::vector<LayerCase> split_cases() {
  return {
      {.name = "one_element", .x = {{{1, 1}}}},
      {.name = "features_7x13", .x = {{{7, 13}}}},
      {.name = "images_nchw", .keys = {{"outputs", "3"}}, .x = images(1)},
      {.name = "images_nhwc", .keys = {{"outputs", "9"}}, .x = images(1, Layout::kNHWC)},
      {.name = "vector_length_1027", .x = {{{1, 1027}}}},
      {.name = "large", .x = {{{8, 16, 33, 31}}}, .gradient_check = false},
      {.name = "integers", .x = {{{5, 17}}}, .data = Data::kIntegers, .exact = true},
      {.name = "non_finite", .x = {{{5, 17}}}, .data = Data::kNonFinite},
  };
}

std::vector<LayerCase> add_relu_cases() {
  return {
      {.name = "one_element", .x = {{{1, 1}}, {{1, 1}}}},
      {.name = "features_7x13", .x = {{{7, 13}}, {{7, 13}}}},
      {.name = "two_readers", .keys = {{"outputs", "2"}}, .x = images(2)},
      {.name = "images_nhwc", .keys = {{"outputs", "3"}}, .x = images(3, Layout::kNHWC)},
      {.name = "nine", .keys = {{"outputs", "9"}}, .x = images(9)},
      {.name = "vector_length_1027", .keys = {{"outputs", "2"}}, .x = {{{1, 1027}}, {{1, 1027}}}},
      {.name = "large",
       .keys = {{"outputs", "2"}},
       .x = {{{8, 16, 33, 31}}, {{8, 16, 33, 31}}},
       .gradient_check = false},
      {.name = "integers",
       .keys = {{"outputs", "2"}},
       .x = {{{5, 17}}, {{5, 17}}, {{5, 17}}},
       .data = Data::kIntegers,
       .exact = true},
      {.name = "non_finite",
       .x = {{{5, 17}}, {{5, 17}}},
       .data = Data::kNonFinite,
       .forward_only = true},
  };
}

namespace {

TEST(Add, RefusesWhatDiffers) {
  for (const TensorDesc& other : {TensorDesc{{2, 3, 5, 6}}, TensorDesc{{2, 3}},
                                  TensorDesc{{2, 3, 5, 7}, DType::kFloat32, Layout::kNHWC}}) {
    try {
      make_layer("add", {.name = "differ", .x = {{{2, 3, 5, 7}}, other}});
      ADD_FAILURE() << "accepted " << other.to_string();
    } catch (const ShapeError& e) {
      EXPECT_NE(std::string(e.what()).find("2x3x5x7 float32 nchw and " + other.to_string()),
                std::string::npos)
          << e.what();
    }
  }
  EXPECT_THROW(make_layer("add", {.name = "alone", .x = images(1)}), ShapeError);
}

// As in a network: copies for each reader or input would be timed.
TEST(AddRelu, IsMeasuredWithOneOutputAndOneGradient) {
  const auto layer = make_layer("add_relu", {.keys = {{"outputs", "2"}}, .x = images(3)});
  Context context(Device::kCpu);
  LayerRig rig(*layer, "cpu_reference", layer->passes(), context, {});
  for (const auto& [pass, count] : {std::pair(Pass::kForward, 2), std::pair(Pass::kBackward, 3)}) {
    const std::vector<Tensor> written = rig.written_by(pass);
    ASSERT_EQ(std::ssize(written), count);
    for (const Tensor& each : written) EXPECT_EQ(each.memory, written[0].memory);
  }
}

}  // namespace
}  // namespace duet
