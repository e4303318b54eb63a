#include "support/layer_case.h"

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
      {.name = "kernel_is_image",
       .keys = {{"out_channels", "13"}, {"kernel", "[5, 7]"}},
       .x = {image(2, 3, 5, 7)}},
      {.name = "k11_stride4",
       .keys = {{"out_channels", "9"}, {"kernel", "11"}, {"stride", "4"}, {"padding", "2"}},
       .x = {image(1, 3, 35, 33)}},
      {.name = "c64_k64",
       .keys = {{"out_channels", "64"}, {"kernel", "3"}, {"padding", "1"}},
       .x = {image(2, 64, 13, 13)},
       .gradient_check = false},
      {.name = "c17_k33",
       .keys = {{"out_channels", "33"}, {"kernel", "3"}},
       .x = {image(3, 17, 15, 14)},
       .gradient_check = false},
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

  const size_t count = cases.size();
  for (size_t i = 0; i < count; ++i) {
    LayerCase c = cases[i];
    c.name += "_nhwc";
    c.x[0].layout = Layout::kNHWC;
    c.gradient_check = false;  // the layouts are held to each other
    cases.push_back(c);
  }
  return cases;
}

}  // namespace duet
