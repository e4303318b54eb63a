#include "measure/examine/wrong_elements.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "measure/check/classify.h"
#include "support/text.h"

namespace duet {
namespace {

constexpr auto kRight = ElementState::kRight;
constexpr auto kWrong = ElementState::kWrong;
constexpr auto kNotFinite = ElementState::kNotFinite;

using IsWrong = std::function<bool(int64_t n, int64_t c, int64_t h, int64_t w)>;

std::string picture(const TensorDesc& desc, const IsWrong& is_wrong, ElementState state = kWrong) {
  std::vector<ElementState> elements(static_cast<size_t>(desc.elements()), kRight);
  const Shape& s = desc.shape;
  for (int64_t n = 0; n < s[0]; ++n) {
    for (int64_t c = 0; c < s[1]; ++c) {
      for (int64_t h = 0; h < s[2]; ++h) {
        for (int64_t w = 0; w < s[3]; ++w) {
          if (is_wrong(n, c, h, w))
            elements[static_cast<size_t>(offset_of(desc, n, c, h, w))] = state;
        }
      }
    }
  }
  return picture_of(desc, elements);
}

const TensorDesc kImages = {{2, 8, 3, 5}};

TEST(WrongElements, NothingWrongIsNoPicture) {
  EXPECT_EQ(picture(kImages, [](auto...) { return false; }), "");
}

TEST(WrongElements, AnEdgeColumnOfAllImages) {
  EXPECT_EQ(picture(kImages, [](auto, auto, auto, auto w) { return w == 4; }),
            "n: all 2; c: all 8; h: all 3; w: 4 of 5\n"
            "h\\w 01234\n"
            "  0 ....#\n"
            "  1 ....#\n"
            "  2 ....#\n"
            ". right, # all wrong");
}

TEST(WrongElements, EveryFourthChannel) {
  const std::string text = picture(kImages, [](auto, auto c, auto...) { return c % 4 == 1; });
  EXPECT_TRUE(has(text, "n: all 2; c: 1, 5 (2 of 8); h: all 3; w: all 5\n", "  0 #####")) << text;
  const std::string more =
      picture({{1, 12, 1, 2}}, [](auto, auto c, auto...) { return c % 4 == 1; });
  EXPECT_TRUE(has(more, "c: every 4th from 1 to 9 (3 of 12); w: all 2\nc\\w 01\n")) << more;
}

TEST(WrongElements, ATileOfSomeChannels) {
  EXPECT_EQ(picture({{4, 16, 6, 9}},
                    [](auto n, auto c, auto h, auto w) {
                      return n == 2 && c >= 8 && h >= 4 && w >= 4 && (w < 8 || c < 12);
                    }),
            "n: 2 of 4; c: 8 to 15 of 16; h: 4 to 5 of 6; w: 4 to 8 of 9\n"
            "h\\w 012345678\n"
            "  0 .........\n"
            "  1 .........\n"
            "  2 .........\n"
            "  3 .........\n"
            "  4 ....####+\n"
            "  5 ....####+\n"
            ". right, + some wrong, # all wrong");
}

TEST(WrongElements, ASingleElementIsFoundInEitherLayout) {
  const IsWrong one = [](auto n, auto c, auto h, auto w) {
    return n == 1 && c == 7 && h == 2 && w == 0;
  };
  const std::string text = picture(kImages, one);
  EXPECT_TRUE(
      has(text, "n: 1 of 2; c: 7 of 8; h: 2 of 3; w: 0 of 5\n", "  1 .....\n", "  2 #....\n"))
      << text;
  EXPECT_EQ(picture({{2, 8, 3, 5}, DType::kFloat32, Layout::kNHWC}, one), text);
}

TEST(WrongElements, WhatIsNotFiniteHasASymbolOfItsOwn) {
  const std::string text = picture(
      kImages, [](auto, auto, auto h, auto) { return h == 0; }, kNotFinite);
  EXPECT_TRUE(has(text, "  0 NNNNN\n", "  1 .....\n", "N unwritten, NaN or infinite")) << text;
}

TEST(WrongElements, LargeAxesShareCells) {
  const TensorDesc desc = {{100, 256}};
  std::vector<ElementState> elements(100 * 256, kRight);
  for (int64_t i = 0; i < 8; ++i) elements[static_cast<size_t>(99 * 256 + i)] = kWrong;
  elements[8] = kWrong;
  const std::string text = picture_of(desc, elements);
  EXPECT_TRUE(has(text, "axis 0: 0, 99 (2 of 100); axis 1: 0 to 8 of 256\n", " 8 a cell\n",
                  " 0 .+..............................\n", "98 +...............................\n"))
      << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1 + 15 + 1);
}

TEST(WrongElements, AxesOfOneIndexAreLeftOut) {
  const std::string text =
      picture({{4, 3, 1, 1}}, [](auto n, auto c, auto...) { return n > 1 && c == 1; });
  EXPECT_TRUE(has(text, "n: 2 to 3 of 4; c: 1 of 3\nn\\c 012\n", "  3 .#.\n")) << text;
  EXPECT_EQ(picture({{1, 1, 1, 1}}, [](auto...) { return true; }), "");
}

TEST(WrongElements, AVectorIsOneRow) {
  EXPECT_EQ(picture_of({{6}}, {kRight, kRight, kWrong, kWrong, kRight, kWrong}),
            "axis 0: 2, 3, 5 (3 of 6)\n"
            "  012345\n"
            "  ..##.#\n"
            ". right, # all wrong");
}

TEST(WrongElements, FewIndicesWithoutARuleAreListed) {
  std::vector<ElementState> elements(20, kRight);
  for (const size_t i : {1, 2, 5, 7, 11, 13}) elements[i] = kWrong;
  const std::string text = picture_of({{20}}, elements);
  EXPECT_TRUE(has(text, "axis 0: 1, 2, 5, 7, ... (6 of 20)\n")) << text;
}

// y of four values that are `found` where 1 is expected.
Fault fault_of(const std::vector<double>& found, const Limit& limit) {
  const TensorDesc desc = {{2, 2}};
  const std::vector<double> expected(4, 1.0);
  const TensorResult tensor = {"y", desc, compare(expected, found, limit), limit};
  return classify({tensor}, {{.name = "y", .desc = desc, .values = found}},
                  {{.name = "y", .desc = desc, .values = expected}});
}

TEST(WrongElements, AFaultHasThePictureOfWhatIsBeyondTheLimit) {
  const Fault fault = fault_of({1, 1 + 1e-7, 1, 1.5}, Limit::elementwise());
  EXPECT_EQ(fault.kind, FaultKind::kWrong);
  EXPECT_TRUE(has(fault.text, "is wrong in 1 of 4 elements of y")) << fault.text;
  EXPECT_TRUE(has(fault.picture, "axis 0: 1 of 2; axis 1: 1 of 2\n", "1 .#\n")) << fault.picture;
  EXPECT_TRUE(has(fault_of({1, NAN, 1, 1}, Limit::exact()).picture, "0 .N\n"));
  EXPECT_EQ(fault_of({0, 0, 0, 0}, Limit::exact()).picture, "");
}

}  // namespace
}  // namespace duet
