#include "core/tensor.h"

#include <gtest/gtest.h>

#include <set>

#include "core/arena.h"

namespace duet {
namespace {

TEST(Shape, CountsAndPrints) {
  const Shape s{64, 1, 28, 28};
  EXPECT_EQ(s.rank(), 4);
  EXPECT_EQ(s[3], 28);
  EXPECT_EQ(s.elements(), 64 * 28 * 28);
  EXPECT_EQ(s.to_string(), "64x1x28x28");
  EXPECT_EQ(Shape().to_string(), "scalar");
  EXPECT_EQ(Shape().elements(), 1);
  EXPECT_EQ((Shape{3, 0}).elements(), 0);
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{2, 1}), (Shape{2}));
}

TEST(Shape, CountsBeyond32Bits) {
  EXPECT_EQ((Shape{65536, 65536, 2}).elements(), int64_t{1} << 33);
}

TEST(Shape, RefusesMoreThanFourSizes) {
  EXPECT_THROW((Shape{1, 2, 3, 4, 5}), std::invalid_argument);
}

TEST(TensorDesc, BytesAndText) {
  EXPECT_EQ((TensorDesc{{2, 3}, DType::kFloat64}).bytes(), 48u);
  EXPECT_EQ((TensorDesc{{2, 3}, DType::kUInt8}).bytes(), 6u);
  EXPECT_EQ((TensorDesc{{64, 1, 28, 28}}).to_string(), "64x1x28x28 float32 nchw");
  EXPECT_EQ((TensorDesc{{8, 2, 2, 2}, DType::kFloat32, Layout::kNHWC}).to_string(),
            "8x2x2x2 float32 nhwc");
  EXPECT_EQ((TensorDesc{{8}, DType::kInt32}).to_string(), "8 int32");
}

TEST(TensorDesc, OffsetsCoverEachLayoutOnce) {
  for (Layout layout : {Layout::kNCHW, Layout::kNHWC}) {
    const TensorDesc d{{2, 3, 4, 5}, DType::kFloat32, layout};
    std::set<int64_t> offsets;
    for (int n = 0; n < 2; ++n) {
      for (int c = 0; c < 3; ++c) {
        for (int h = 0; h < 4; ++h) {
          for (int w = 0; w < 5; ++w) offsets.insert(offset_of(d, n, c, h, w));
        }
      }
    }
    EXPECT_EQ(offsets.size(), 120u);
    EXPECT_EQ(*offsets.begin(), 0);
    EXPECT_EQ(*offsets.rbegin(), 119);
    EXPECT_EQ(offset_of(d, 0, 1, 0, 0), layout == Layout::kNCHW ? 20 : 1);
  }
}

TEST(Tensor, IsFalsyWithoutMemory) {
  float value = 0;
  EXPECT_FALSE((Tensor{{{1}}, nullptr}));
  EXPECT_TRUE((Tensor{{{1}}, &value}));
}

TEST(ArenaPlan, RangesAreAlignedAndApart) {
  ArenaPlan plan;
  EXPECT_EQ(plan.reserve(1), 0u);
  EXPECT_EQ(plan.reserve(256), 256u);
  EXPECT_EQ(plan.reserve(0), 512u);
  EXPECT_EQ(plan.reserve(257), 512u);
  EXPECT_EQ(plan.bytes(), 1024u);
}

}  // namespace
}  // namespace duet
