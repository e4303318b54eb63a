#include "core/shape.h"

#include <gtest/gtest.h>

#include <limits>

namespace duet {
namespace {

constexpr int64_t kLarge = int64_t{1} << 31;

TEST(Shape, CountsItsElementsOrRefuses) {
  EXPECT_EQ(Shape{}.elements(), 1);
  EXPECT_EQ((Shape{64, 1, 28, 28}).elements(), 50176);
  EXPECT_EQ((Shape{0, 5}).elements(), 0);
  EXPECT_EQ((Shape{int64_t{1} << 40}).elements(), int64_t{1} << 40);
  EXPECT_THROW((Shape{int64_t{1} << 40, 2}).elements(), ShapeError);
  EXPECT_THROW((Shape{kLarge, kLarge, kLarge, kLarge}).elements(), ShapeError);
  EXPECT_THROW((Shape{kLarge * 2, kLarge * 2}).elements(), ShapeError);  // 2^64: 0 without a check
}

TEST(Shape, ProductsAreCheckedOrSaturate) {
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(product_of({3, 5, 7}), 105);
  EXPECT_EQ(saturated_product_of({3, 5, 7}), 105);
  EXPECT_EQ(product_of({kLarge, kLarge}), int64_t{1} << 62);
  EXPECT_THROW(product_of({kLarge, kLarge, 2}), ShapeError);
  EXPECT_EQ(saturated_product_of({kLarge, kLarge, 2}), most);
}

}  // namespace
}  // namespace duet
