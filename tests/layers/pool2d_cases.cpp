#include "layers/pool2d_cases.h"

namespace duet {
namespace {

using Keys = std::vector<std::pair<std::string, std::string>>;

LayerCase image(const std::string& name, const Keys& keys, int64_t n, int64_t c, int64_t h,
                int64_t w) {
  return {.name = name, .keys = keys, .x = {{{n, c, h, w}}}};
}

}  // namespace

std::vector<LayerCase> pool2d_cases() {
  const Keys k2 = {{"kernel", "2"}};
  const Keys k3s2p1 = {{"kernel", "3"}, {"stride", "2"}, {"padding", "1"}};
  std::vector<LayerCase> cases = {
      image("one_pixel", {{"kernel", "1"}}, 1, 1, 1, 1),
      image("k1_stride2", {{"kernel", "1"}, {"stride", "2"}}, 2, 3, 5, 7),
      // The 2x2 form in each alignment: rows of 4k, 4k + 2 and odd pixels; odd heights. In nhwc channels of 4k
      // and 8k.
      image("k2_w4", k2, 1, 1, 4, 4),
      image("k2_w8_odd_height", k2, 2, 3, 7, 8),
      image("k2_w6", k2, 3, 5, 6, 6),
      image("k2_w10_odd_height", k2, 2, 1, 5, 10),
      image("k2_odd_width", k2, 2, 3, 6, 7),
      image("k2_odd_both", k2, 1, 5, 5, 5),
      image("k2_c64_13", k2, 2, 64, 13, 13),
      image("k2_c32_28", k2, 3, 32, 28, 28),
      image("k2_c12_odd_both", k2, 2, 12, 5, 7),
      image("k2_padding1", {{"kernel", "2"}, {"padding", "1"}}, 2, 3, 4, 6),
      // Windows that overlap, leave gaps, hang over the padding or do not fit a whole number of
      // times.
      image("k2_stride1", {{"kernel", "2"}, {"stride", "1"}}, 2, 3, 4, 4),
      image("k3_stride1_padding1", {{"kernel", "3"}, {"stride", "1"}, {"padding", "1"}}, 2, 5, 7,
            6),
      image("k3_stride1_padding1_w8", {{"kernel", "3"}, {"stride", "1"}, {"padding", "1"}}, 2, 3, 5,
            8),
      image("k3_stride1_padding1_w12_c8", {{"kernel", "3"}, {"stride", "1"}, {"padding", "1"}}, 1,
            8, 6, 12),
      image("k3_stride1_c12", {{"kernel", "3"}, {"stride", "1"}}, 2, 12, 5, 9),
      image("k3_stride2_padding1_w16", k3s2p1, 2, 3, 7, 16),
      image("k3_stride2_padding1_w24", k3s2p1, 1, 4, 10, 24),
      image("k3_stride2", {{"kernel", "3"}, {"stride", "2"}}, 2, 3, 11, 13),
      image("k3_stride2_floor", {{"kernel", "3"}, {"stride", "2"}}, 1, 64, 8, 8),
      image("k3_stride2_padding1", k3s2p1, 2, 64, 9, 10),
      image("k2_stride3", {{"kernel", "2"}, {"stride", "3"}}, 2, 3, 11, 7),
      image("k5_stride1_padding2", {{"kernel", "5"}, {"stride", "1"}, {"padding", "2"}}, 1, 5, 7,
            7),
      image("k3x2_stride2x1_padding1x0",
            {{"kernel", "[3, 2]"}, {"stride", "[2, 1]"}, {"padding", "[1, 0]"}}, 2, 8, 7, 5),
      image("k2x5_default_stride", {{"kernel", "[2, 5]"}}, 2, 4, 6, 11),
      image("k4_padding2_tiny", {{"kernel", "4"}, {"stride", "1"}, {"padding", "2"}}, 1, 3, 2, 1),
      // Windows as large as the image, also above 256 pixels.
      image("global_7x7", {{"kernel", "7"}}, 2, 64, 7, 7),
      image("global_5x3", {{"kernel", "[5, 3]"}}, 3, 5, 5, 3),
      image("global_16x16", {{"kernel", "16"}}, 1, 3, 16, 16),
      image("global_17x19", {{"kernel", "[17, 19]"}}, 2, 4, 17, 19),
      image("k17_stride2", {{"kernel", "17"}, {"stride", "2"}}, 1, 3, 21, 20),
      image("batch_1_c1", {{"kernel", "3"}}, 1, 1, 31, 29),
      image("non_finite", k3s2p1, 2, 4, 9, 9),
      image("non_finite_k2", k2, 2, 3, 8, 8),
      image("non_finite_k2_c8", k2, 2, 8, 6, 4),
  };
  for (LayerCase& c : cases) {
    c.gradient_check = c.x[0].elements() < 1000;
    if (c.name.find("non_finite") == 0) c.data = Data::kNonFinite;
  }
  return in_both_layouts(std::move(cases));
}

}  // namespace duet
