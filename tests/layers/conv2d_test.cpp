#include "layers/conv2d/conv2d.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "support/layer_case.h"
#include "support/text.h"

namespace duet {
namespace {

TensorDesc image(int64_t n, int64_t c, int64_t h, int64_t w) { return {{n, c, h, w}}; }

}  // namespace

std::vector<LayerCase> conv2d_cases() {
  std::vector<LayerCase> cases = {
      {.name = "one", .keys = {{"out_channels", "1"}, {"kernel", "1"}}, .x = {image(1, 1, 1, 1)}},
      {.name = "k1_c5", .keys = {{"out_channels", "7"}, {"kernel", "1"}}, .x = {image(2, 5, 3, 4)}},
      {.name = "k3_same",
       .keys = {{"out_channels", "4"}, {"kernel", "3"}, {"padding", "1"}},
       .x = {image(2, 3, 5, 7)}},
      {.name = "k5_no_bias",
       .keys = {{"out_channels", "6"}, {"kernel", "5"}, {"bias", "false"}},
       .x = {image(3, 1, 11, 9)}},
      {.name = "k3x2_stride2x3",
       .keys = {{"out_channels", "5"},
                {"kernel", "[3, 2]"},
                {"stride", "[2, 3]"},
                {"padding", "[0, 1]"}},
       .x = {image(2, 3, 10, 13)}},
      {.name = "dilation2",
       .keys = {{"out_channels", "5"}, {"kernel", "3"}, {"dilation", "2"}, {"padding", "2"}},
       .x = {image(1, 2, 9, 8)}},
      {.name = "padding_wider_than_needed",
       .keys = {{"out_channels", "2"}, {"kernel", "2"}, {"padding", "3"}},
       .x = {image(1, 2, 3, 3)}},
      {.name = "groups3",
       .keys = {{"out_channels", "6"}, {"kernel", "3"}, {"groups", "3"}},
       .x = {image(2, 9, 6, 5)}},
      {.name = "depthwise",
       .keys = {{"out_channels", "8"}, {"kernel", "3"}, {"groups", "8"}, {"padding", "1"}},
       .x = {image(2, 8, 7, 7)}},
      {.name = "depthwise_k3_stride2_2_filters",
       .keys = {{"out_channels", "6"},
                {"kernel", "3"},
                {"stride", "2"},
                {"groups", "3"},
                {"padding", "1"}},
       .x = {image(3, 3, 13, 10)}},
      {.name = "depthwise_k5",
       .keys = {{"out_channels", "4"}, {"kernel", "5"}, {"groups", "4"}, {"padding", "2"}},
       .x = {image(2, 4, 9, 11)}},
      {.name = "depthwise_k7_stride2",
       .keys = {{"out_channels", "5"},
                {"kernel", "7"},
                {"stride", "2"},
                {"groups", "5"},
                {"padding", "3"},
                {"bias", "false"}},
       .x = {image(2, 5, 14, 15)}},
      {.name = "depthwise_padding_wider_than_needed",
       .keys = {{"out_channels", "2"}, {"kernel", "3"}, {"groups", "2"}, {"padding", "4"}},
       .x = {image(2, 2, 5, 6)}},
      {.name = "depthwise_everything",
       .keys = {{"out_channels", "9"},
                {"kernel", "[2, 3]"},
                {"stride", "[3, 1]"},
                {"padding", "[1, 2]"},
                {"dilation", "[1, 2]"},
                {"groups", "3"}},
       .x = {image(2, 3, 11, 9)}},
      {.name = "depthwise_large",
       .keys = {{"out_channels", "16"}, {"kernel", "3"}, {"groups", "16"}, {"padding", "1"}},
       .x = {image(16, 16, 41, 38)},
       .gradient_check = false},
      {.name = "kernel_is_image",
       .keys = {{"out_channels", "13"}, {"kernel", "[5, 7]"}},
       .x = {image(2, 3, 5, 7)}},
      {.name = "k11_stride4",
       .keys = {{"out_channels", "9"}, {"kernel", "11"}, {"stride", "4"}, {"padding", "2"}},
       .x = {image(1, 3, 35, 33)}},
      // Planes of sizes with other prime factors than 2, as transforms of whole images have them.
      {.name = "k11_13x17",
       .keys = {{"out_channels", "6"}, {"kernel", "11"}, {"padding", "[5, 4]"}},
       .x = {image(3, 4, 13, 17)},
       .gradient_check = false},
      {.name = "k7x3_1x40_no_bias",
       .keys =
           {{"out_channels", "5"}, {"kernel", "[7, 3]"}, {"padding", "[3, 0]"}, {"bias", "false"}},
       .x = {image(2, 3, 1, 40)},
       .gradient_check = false},
      {.name = "stride_skips_inputs",  // their gradient is 0
       .keys = {{"out_channels", "3"}, {"kernel", "2"}, {"stride", "5"}, {"padding", "[0, 1]"}},
       .x = {image(3, 2, 12, 13)}},
      {.name = "groups2_everything",
       .keys = {{"out_channels", "10"},
                {"kernel", "[2, 3]"},
                {"stride", "[3, 1]"},
                {"padding", "[1, 3]"},
                {"dilation", "[1, 3]"},
                {"groups", "2"}},
       .x = {image(2, 6, 11, 9)}},
      {.name = "k1_stride2_groups2",
       .keys = {{"out_channels", "4"}, {"kernel", "1"}, {"stride", "2"}, {"groups", "2"}},
       .x = {image(2, 6, 7, 8)}},
      {.name = "channel_multiplier",
       .keys = {{"out_channels", "15"}, {"kernel", "3"}, {"groups", "5"}, {"bias", "false"}},
       .x = {image(2, 5, 6, 7)}},
      {.name = "batch_37",  // several images a slice of the batch, not the same number in each
       .keys = {{"out_channels", "6"}, {"kernel", "5"}, {"padding", "2"}},
       .x = {image(37, 1, 28, 28)},
       .gradient_check = false},
      {.name = "k5_c32",  // cuDNN's fastest may be Winograd's F(9x9, 5x5), which is as bad as TF32
       .keys = {{"out_channels", "32"}, {"kernel", "5"}, {"padding", "2"}},
       .x = {image(4, 32, 14, 14)},
       .gradient_check = false},
      {.name = "c64_k64",
       .keys = {{"out_channels", "64"}, {"kernel", "3"}, {"padding", "1"}},
       .x = {image(2, 64, 13, 13)},
       .gradient_check = false},
      {.name = "c17_k33",
       .keys = {{"out_channels", "33"}, {"kernel", "3"}},
       .x = {image(3, 17, 15, 14)},
       .gradient_check = false},
      // Few channels: the input stays in registers, two outputs by two at a time.
      {.name = "c1_one_image",
       .keys = {{"out_channels", "20"}, {"kernel", "3"}},
       .x = {image(1, 1, 28, 28)},
       .gradient_check = false},
      {.name = "c1_odd_outputs",
       .keys = {{"out_channels", "13"}, {"kernel", "3"}},
       .x = {image(5, 1, 9, 12)}},
      {.name = "c1_k5_odd_outputs",
       .keys = {{"out_channels", "9"}, {"kernel", "5"}, {"padding", "[1, 2]"}},
       .x = {image(3, 1, 10, 11)}},
      {.name = "c1_padding3",  // some outputs read nothing but padding
       .keys = {{"out_channels", "7"}, {"kernel", "3"}, {"padding", "3"}},
       .x = {image(2, 1, 4, 5)}},
      {.name = "c2_k17",
       .keys = {{"out_channels", "17"}, {"kernel", "3"}, {"padding", "[1, 0]"}},
       .x = {image(3, 2, 8, 9)}},
      {.name = "c4_k70",
       .keys = {{"out_channels", "70"}, {"kernel", "3"}, {"padding", "1"}, {"bias", "false"}},
       .x = {image(2, 4, 7, 7)},
       .gradient_check = false},
      // In nhwc rows of outputs that are no whole chunk, filters of more than a block, bands of two rows and of one.
      {.name = "c3_k40_45_images",
       .keys = {{"out_channels", "40"}, {"kernel", "3"}, {"padding", "1"}},
       .x = {image(45, 3, 21, 19)},
       .gradient_check = false},
      {.name = "c4_k8",
       .keys = {{"out_channels", "8"}, {"kernel", "3"}, {"padding", "[0, 2]"}},
       .x = {image(3, 4, 9, 18)},
       .gradient_check = false},
      {.name = "c1_k5_k16",
       .keys = {{"out_channels", "16"}, {"kernel", "5"}},
       .x = {image(4, 1, 13, 37)},
       .gradient_check = false},
      // Four channels at a time, and tiles that do not divide.
      {.name = "c8_k12_stride2",
       .keys = {{"out_channels", "12"}, {"kernel", "3"}, {"stride", "2"}, {"padding", "1"}},
       .x = {image(2, 8, 9, 10)}},
      {.name = "c8_k12_dilation",
       .keys = {{"out_channels", "12"},
                {"kernel", "3"},
                {"stride", "[1, 2]"},
                {"padding", "[2, 0]"},
                {"dilation", "[2, 1]"}},
       .x = {image(3, 8, 8, 9)}},
      {.name = "c3_k7_four_taps",
       .keys = {{"out_channels", "7"}, {"kernel", "2"}, {"padding", "1"}},
       .x = {image(2, 3, 6, 5)}},
      // The gradient of a strided convolution in phases: of unequal sizes, with unequal numbers of
      // taps or none; and a stride larger than the image.
      {.name = "k1_stride2",
       .keys = {{"out_channels", "12"}, {"kernel", "1"}, {"stride", "2"}, {"bias", "false"}},
       .x = {image(2, 8, 7, 6)}},
      // A gradient that sums 4900 products of few channels: cuDNN has no exact algorithm in bf16.
      {.name = "batch_100_k1_c4_k6",
       .keys = {{"out_channels", "6"}, {"kernel", "1"}},
       .x = {{{100, 4, 7, 7}, DType::kFloat32, Layout::kNHWC}},
       .gradient_check = false},
      {.name = "k4_stride3_padding2",
       .keys = {{"out_channels", "6"}, {"kernel", "4"}, {"stride", "3"}, {"padding", "2"}},
       .x = {image(2, 5, 11, 13)}},
      {.name = "stride2x1",
       .keys = {{"out_channels", "8"},
                {"kernel", "[3, 2]"},
                {"stride", "[2, 1]"},
                {"padding", "[1, 0]"}},
       .x = {image(1, 4, 9, 6)}},
      {.name = "stride4_dilation6x3",
       .keys = {{"out_channels", "4"},
                {"kernel", "[4, 5]"},
                {"stride", "4"},
                {"padding", "[5, 3]"},
                {"dilation", "[6, 3]"}},
       .x = {image(2, 12, 17, 14)}},
      {.name = "stride_larger_than_image",
       .keys = {{"out_channels", "5"}, {"kernel", "3"}, {"stride", "[7, 2]"}, {"padding", "3"}},
       .x = {image(3, 4, 4, 1)}},
      // Few outputs and long sums, which are split: of lengths that do not divide.
      {.name = "c130_k36_one_image",
       .keys = {{"out_channels", "36"}, {"kernel", "3"}, {"padding", "1"}},
       .x = {image(1, 130, 5, 6)},
       .gradient_check = false},
      {.name = "c43_k134_stride2",
       .keys = {{"out_channels", "134"}, {"kernel", "3"}, {"stride", "2"}, {"padding", "1"}},
       .x = {image(2, 43, 7, 6)},
       .gradient_check = false},
      {.name = "c100_k140_stride2x3",
       .keys = {{"out_channels", "140"},
                {"kernel", "[3, 4]"},
                {"stride", "[2, 3]"},
                {"padding", "1"},
                {"bias", "false"}},
       .x = {image(1, 100, 6, 9)},
       .gradient_check = false},
      // 1x1 filters, read where they lie in NCHW: planes of whole 16 bytes, of 8 in bf16, and of none; filters and
      // channels that leave tiles unfilled, sums of one slice and of several for each block of a cluster.
      {.name = "c40_k72_1x1",
       .keys = {{"out_channels", "72"}, {"kernel", "1"}},
       .x = {image(2, 40, 7, 8)},
       .gradient_check = false},
      {.name = "c132_k20_1x1_14x14",
       .keys = {{"out_channels", "20"}, {"kernel", "1"}},
       .x = {image(3, 132, 14, 14)},
       .gradient_check = false},
      {.name = "c260_k130_1x1_7x7",
       .keys = {{"out_channels", "130"}, {"kernel", "1"}, {"bias", "false"}},
       .x = {image(5, 260, 7, 7)},
       .gradient_check = false},
      {.name = "c520_k36_1x1_one_pixel",
       .keys = {{"out_channels", "36"}, {"kernel", "1"}},
       .x = {image(2, 520, 1, 1)},
       .gradient_check = false},
      // The same on tensor cores: phases without a tap, taps that all meet one phase, and several boxes.
      {.name = "c40_k72_1x1_stride2",
       .keys = {{"out_channels", "72"}, {"kernel", "1"}, {"stride", "2"}, {"bias", "false"}},
       .x = {image(2, 40, 7, 8)},
       .gradient_check = false},
      {.name = "c48_k40_stride2_dilation1x2",
       .keys = {{"out_channels", "40"},
                {"kernel", "[4, 3]"},
                {"stride", "2"},
                {"padding", "[3, 1]"},
                {"dilation", "[1, 2]"}},
       .x = {image(2, 48, 9, 12)},
       .gradient_check = false},
      {.name = "c66_k40_5x5_stride1x2",
       .keys = {{"out_channels", "40"}, {"kernel", "5"}, {"stride", "[1, 2]"}, {"padding", "2"}},
       .x = {image(5, 66, 13, 22)},
       .gradient_check = false},
      {.name = "c12_k130",
       .keys = {{"out_channels", "130"}, {"kernel", "3"}},
       .x = {image(3, 12, 9, 11)},
       .gradient_check = false},
      {.name = "c130_k6",
       .keys = {{"out_channels", "6"}, {"kernel", "[3, 1]"}},
       .x = {image(2, 130, 6, 7)},
       .gradient_check = false},
      // 64 channels and filters: Winograd's tiles of 2x2 outputs, of whole images and of patches.
      {.name = "c64_k70_36_tiles",
       .keys = {{"out_channels", "70"}, {"kernel", "3"}},
       .x = {image(3, 64, 13, 13)},
       .gradient_check = false},
      {.name = "c66_k65_padding4_wide",  // whole rows of tiles in the padding
       .keys = {{"out_channels", "65"}, {"kernel", "3"}, {"padding", "4"}},
       .x = {image(1, 66, 5, 30)},
       .gradient_check = false},
      {.name = "c65_k64_two_tiles",
       .keys = {{"out_channels", "64"}, {"kernel", "3"}},
       .x = {image(40, 65, 4, 5)},
       .gradient_check = false},
      {.name = "c64_k67_padding3",  // as a convolution of dy its gradient has padding -1
       .keys = {{"out_channels", "67"}, {"kernel", "3"}, {"padding", "3"}, {"bias", "false"}},
       .x = {image(2, 64, 5, 6)},
       .gradient_check = false},
      {.name = "integers_c1",
       .keys = {{"out_channels", "10"}, {"kernel", "5"}, {"padding", "2"}},
       .x = {image(3, 1, 9, 8)},
       .data = Data::kIntegers,
       .exact = true},
      {.name = "integers",
       .keys = {{"out_channels", "19"}, {"kernel", "3"}, {"padding", "1"}},
       .x = {image(2, 6, 11, 10)},
       .data = Data::kIntegers,
       .exact = true},
  };
  LayerCase tf32 = cases[cases.size() - 2];
  tf32.name = "tf32";
  tf32.options.math = Math::kTF32;
  cases.push_back(tf32);

  return in_both_layouts(std::move(cases));
}

namespace {

std::string mistake(const Conv2dParams& params, const Shape& x) {
  return error_of<ShapeError>([&] { conv2d_problem(params, {x}, {}); });
}

TEST(Conv2d, ShapeIsRoundedDown) {
  const Conv2dParams params = {
      .out_channels = 8, .kernel = {3, 2}, .stride = {2, 3}, .padding = {1, 0}, .dilation = {2, 1}};
  const Conv2dProblem problem = conv2d_problem(params, {{4, 5, 10, 12}}, {});
  EXPECT_EQ(problem.y_desc().shape, (Shape{4, 8, 4, 4}));  // (10+2-4-1)/2+1, (12-1-1)/3+1
  EXPECT_EQ(problem.to_string(),
            "n=4 c=5 h=10 w=12 k=8 r=3 s=2 p=4 q=4 stride=2x3 pad=1x0 dilation=2x1 groups=1 "
            "bias=true nchw fp32 float32");
}

TEST(Conv2d, SaysWhatDoesNotFit) {
  EXPECT_EQ(mistake({.kernel = {5, 5}}, {3, 1, 3, 28}),
            "kernel 5x5 is larger than the input of 3x28 with padding 0x0");
  EXPECT_EQ(mistake({.kernel = {3, 3}, .padding = {0, 1}, .dilation = {2, 1}}, {3, 1, 4, 28}),
            "kernel 3x3 with dilation 2x1 spans 5x3 and is larger than the input of 4x28 with "
            "padding 0x1");
  EXPECT_EQ(mistake({.out_channels = 8, .groups = 4}, {3, 6, 9, 9}),
            "the input's 6 channels do not divide into 4 groups");
  EXPECT_EQ(mistake({.out_channels = 6, .groups = 4}, {3, 8, 9, 9}),
            "out_channels 6 do not divide into 4 groups");
  EXPECT_EQ(mistake({}, {64, 784}), "a convolution takes images (N x C x H x W), not 64x784");
  EXPECT_EQ(mistake({.padding = {int64_t{1} << 30, 0}}, {1, 1, 9, 9}),
            "padding 1073741824x0 around an input of 9x9 makes more than 2^31-1 rows or columns");
}

TEST(Conv2d, ParametersAreAsPyTorchs) {
  const Conv2dProblem problem =
      conv2d_problem({.out_channels = 8, .kernel = {3, 2}, .groups = 2}, {{4, 6, 9, 9}}, {});
  const auto parameters = conv2d_parameters(problem, Init::kDefault);
  ASSERT_EQ(parameters.size(), 2u);
  EXPECT_EQ(parameters[0].name, "weight");
  EXPECT_EQ(parameters[0].desc.shape, (Shape{8, 3, 3, 2}));
  EXPECT_EQ(parameters[0].fan_in, 18);
  EXPECT_EQ(parameters[0].fan_out, 48);
  EXPECT_EQ(parameters[1].name, "bias");
  EXPECT_EQ(parameters[1].desc.shape, (Shape{8}));
  EXPECT_EQ(parameters[1].fan_in, 18);  // a bias is drawn within 1/sqrt(fan_in) of its weights
  EXPECT_EQ(parameters[1].init, Init::kDefault);
  // A bias starts at zero with every other initialisation.
  EXPECT_EQ(conv2d_parameters(problem, Init::kHeNormal)[0].init, Init::kHeNormal);
  EXPECT_EQ(conv2d_parameters(problem, Init::kHeNormal)[1].init, Init::kZeros);
}

}  // namespace
}  // namespace duet
