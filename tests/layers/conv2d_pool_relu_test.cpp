#include "layers/conv2d_pool_relu/conv2d_pool_relu.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/case_rig.h"
#include "support/layer_case.h"
#include "support/text.h"

namespace duet {

std::vector<LayerCase> conv2d_pool_relu_cases() {
  const auto image = [](int64_t n, int64_t c, int64_t h, int64_t w) {
    return TensorDesc{{n, c, h, w}};
  };
  std::vector<LayerCase> cases = {
      {.name = "one",
       .keys = {{"out_channels", "1"}, {"kernel", "1"}, {"pool_kernel", "1"}},
       .x = {image(1, 1, 1, 1)}},
      {.name = "k3_pool2",
       .keys = {{"out_channels", "4"}, {"kernel", "3"}, {"padding", "1"}, {"pool_kernel", "2"}},
       .x = {image(2, 3, 6, 8)}},
      {.name = "rows_that_no_window_holds",
       .keys = {{"out_channels", "5"}, {"kernel", "3"}, {"pool_kernel", "2"}},
       .x = {image(3, 2, 9, 11)}},
      {.name = "no_bias",
       .keys = {{"out_channels", "3"}, {"kernel", "5"}, {"bias", "false"}, {"pool_kernel", "2"}},
       .x = {image(2, 1, 10, 10)}},
      {.name = "overlapping_windows",
       .keys = {{"out_channels", "4"},
                {"kernel", "3"},
                {"pool_kernel", "3"},
                {"pool_stride", "2"},
                {"pool_padding", "1"}},
       .x = {image(2, 2, 9, 8)}},
      {.name = "everything",
       .keys = {{"out_channels", "6"},
                {"kernel", "[2, 3]"},
                {"stride", "[1, 2]"},
                {"padding", "[1, 0]"},
                {"dilation", "[2, 1]"},
                {"groups", "2"},
                {"pool_kernel", "[3, 2]"},
                {"pool_stride", "[2, 3]"},
                {"pool_padding", "[0, 1]"}},
       .x = {image(2, 4, 11, 13)}},
      {.name = "first_layer",
       .keys = {{"out_channels", "32"}, {"kernel", "3"}, {"padding", "1"}, {"pool_kernel", "2"}},
       .x = {image(5, 1, 28, 28)},
       .gradient_check = false},
      {.name = "c32_k64",
       .keys = {{"out_channels", "64"}, {"kernel", "3"}, {"padding", "1"}, {"pool_kernel", "2"}},
       .x = {image(3, 32, 14, 14)},
       .gradient_check = false},
      {.name = "c17_k33",
       .keys = {{"out_channels", "33"}, {"kernel", "3"}, {"pool_kernel", "2"}},
       .x = {image(3, 17, 15, 14)},
       .gradient_check = false},
      // Few channels: a window's input stays in registers.
      {.name = "c1_one_image",
       .keys = {{"out_channels", "20"}, {"kernel", "3"}, {"pool_kernel", "2"}},
       .x = {image(1, 1, 28, 28)},
       .gradient_check = false},
      {.name = "c1_k5",
       .keys = {{"out_channels", "9"}, {"kernel", "5"}, {"padding", "2"}, {"pool_kernel", "2"}},
       .x = {image(3, 1, 12, 15)}},
      {.name = "c2_k5",
       .keys = {{"out_channels", "5"}, {"kernel", "3"}, {"pool_kernel", "2"}},
       .x = {image(2, 2, 7, 8)}},
      {.name = "c4_k70",
       .keys = {{"out_channels", "70"}, {"kernel", "3"}, {"padding", "1"}, {"pool_kernel", "2"}},
       .x = {image(2, 4, 9, 8)},
       .gradient_check = false},
      // 3x3: Winograd's tiles, by whole images where these are small.
      {.name = "c12_k65",
       .keys = {{"out_channels", "65"}, {"kernel", "3"}, {"pool_kernel", "2"}},
       .x = {image(3, 12, 10, 11)},
       .gradient_check = false},
      {.name = "c64_k40",
       .keys = {{"out_channels", "40"}, {"kernel", "3"}, {"pool_kernel", "2"}},
       .x = {image(3, 64, 10, 10)},
       .gradient_check = false},
      {.name = "c64_one_window",
       .keys = {{"out_channels", "33"}, {"kernel", "3"}, {"pool_kernel", "2"}},
       .x = {image(5, 64, 4, 5)},
       .gradient_check = false},
      {.name = "c56_k120_padding1",
       .keys = {{"out_channels", "120"}, {"kernel", "3"}, {"padding", "1"}, {"pool_kernel", "2"}},
       .x = {image(3, 56, 8, 9)},
       .gradient_check = false},
      {.name = "c64_k72_dilation",
       .keys = {{"out_channels", "72"},
                {"kernel", "[2, 3]"},
                {"dilation", "[2, 1]"},
                {"pool_kernel", "2"}},
       .x = {image(2, 64, 13, 13)},
       .gradient_check = false},
      {.name = "c7_k11_padding3",  // some windows hold nothing but the bias
       .keys = {{"out_channels", "11"}, {"kernel", "3"}, {"padding", "3"}, {"pool_kernel", "2"}},
       .x = {image(2, 7, 5, 6)}},
      {.name = "more_than_32_windows",
       .keys = {{"out_channels", "12"}, {"kernel", "3"}, {"padding", "1"}, {"pool_kernel", "2"}},
       .x = {image(2, 8, 16, 18)},
       .gradient_check = false},
      // Any other kernel, stride or dilation.
      {.name = "c8_k12_stride2",
       .keys = {{"out_channels", "12"},
                {"kernel", "3"},
                {"stride", "2"},
                {"padding", "1"},
                {"pool_kernel", "2"}},
       .x = {image(2, 8, 13, 14)}},
      {.name = "c3_k7_dilation",
       .keys = {{"out_channels", "7"},
                {"kernel", "[2, 4]"},
                {"stride", "[1, 3]"},
                {"padding", "[2, 1]"},
                {"dilation", "[3, 1]"},
                {"pool_kernel", "2"}},
       .x = {image(2, 3, 9, 20)}},
      {.name = "c8_k12_stride2_dilation3",
       .keys = {{"out_channels", "12"},
                {"kernel", "3"},
                {"stride", "2"},
                {"padding", "3"},
                {"dilation", "[3, 2]"},
                {"pool_kernel", "2"}},
       .x = {image(2, 8, 13, 12)}},
      {.name = "c12_k130",
       .keys = {{"out_channels", "130"}, {"kernel", "[1, 2]"}, {"pool_kernel", "2"}},
       .x = {image(3, 12, 9, 10)},
       .gradient_check = false},
      {.name = "ties",  // whole numbers: windows often hold their maximum twice. A 1x1 kernel,
                        // which no library computes by a transform that would round.
       .keys = {{"out_channels", "5"}, {"kernel", "1"}, {"pool_kernel", "3"}},
       .x = {image(4, 2, 13, 13)},
       .data = Data::kIntegers,
       .exact = true,
       .gradient_check = false},
  };
  for (const char* name : {"c32_k64", "c8_k12_stride2"}) {
    LayerCase tf32 = *std::find_if(cases.begin(), cases.end(),
                                   [&](const LayerCase& c) { return c.name == name; });
    tf32.name += "_tf32";
    tf32.options.math = Math::kTF32;
    tf32.gradient_check = false;  // of the reference in double, which knows no math
    cases.push_back(tf32);
  }
  return in_both_layouts(std::move(cases));
}

namespace {

struct Values {
  std::vector<double> y, dx;
  std::vector<std::vector<double>> dw;
};

/// All passes of one layer by cpu_reference; an empty data.dy counts as zeros.
Values run_layer(std::string_view type, const LayerCase& c, LayerData data) {
  const auto layer = make_layer(type, c);
  if (data.dy.empty()) data.dy.emplace_back(layer->outputs()[0].elements(), 0.0);
  CaseRig runner(*layer, c, "cpu_reference", data, layer->passes());
  Values values;
  for (Pass pass : layer->passes()) {
    runner.run(pass);
    for (const NamedValues& output : runner.outputs(pass)) {
      if (output.name == "y[0]") values.y = output.values;
      if (output.name == "dx[0]") values.dx = output.values;
      if (output.parameter) values.dw.push_back(output.values);
    }
  }
  return values;
}

// This layer pools before relu. The other order, made of the three layers, has the same bits.
TEST(Conv2dPoolRelu, TheOrderOfPoolingAndReluDoesNotMatter) {
  for (const LayerCase& c : conv2d_pool_relu_cases()) {
    SCOPED_TRACE(c.name);
    const auto layer = make_layer("conv2d_pool_relu", c);
    const LayerData data = make_data(c, *layer);
    const Values block = run_layer("conv2d_pool_relu", c, data);

    LayerCase conv = c, relu = c, pool = c;
    conv.keys.clear();
    relu.keys.clear();
    pool.keys.clear();
    for (const auto& [key, value] : c.keys) {
      const bool pools = key.starts_with("pool_");
      (pools ? pool : conv).keys.emplace_back(pools ? key.substr(5) : key, value);
    }
    const std::vector<double> z = run_layer("conv2d", conv, {data.x, data.w, {}}).y;
    relu.x = pool.x = make_layer("conv2d", conv)->outputs();
    const std::vector<double> a = run_layer("relu", relu, {{z}, {}, {}}).y;
    const Values pooled = run_layer("max_pool2d", pool, {{a}, {}, data.dy});
    EXPECT_EQ(block.y, pooled.y);
    const std::vector<double> dz = run_layer("relu", relu, {{z}, {}, {pooled.dx}}).dx;
    const Values convolved = run_layer("conv2d", conv, {data.x, data.w, {dz}});
    EXPECT_EQ(block.dx, convolved.dx);
    EXPECT_EQ(block.dw, convolved.dw);
  }
}

TEST(Conv2dPoolRelu, PassesStayTogether) {
  const LayerCase c = conv2d_pool_relu_cases()[0];
  EXPECT_FALSE(make_layer("conv2d_pool_relu", c)->chooses_per_pass());
  EXPECT_EQ(make_layer("conv2d_pool_relu", c)->passes().size(), 3u);
}

TEST(Conv2dPoolRelu, SaysWhatDoesNotFit) {
  const LayerCase c = {.keys = {{"out_channels", "1"}, {"kernel", "5"}, {"pool_kernel", "3"}},
                       .x = {{{1, 1, 6, 9}}}};
  EXPECT_EQ(error_of<ShapeError>([&] { make_layer("conv2d_pool_relu", c); }),
            "after the convolution, pooling: kernel 3x3 is larger than the input of 2x5 with "
            "padding 0x0");
}

}  // namespace
}  // namespace duet
