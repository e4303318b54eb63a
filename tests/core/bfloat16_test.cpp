#include "core/bfloat16.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "core/storage.h"

namespace duet {
namespace {

bfloat16 of_bits(uint32_t bits) {
  bfloat16 value;
  value.bits = static_cast<uint16_t>(bits);
  return value;
}

uint32_t rounded(float value) { return bfloat16(value).bits; }
uint32_t rounded_bits(uint32_t float_bits) { return rounded(std::bit_cast<float>(float_bits)); }

TEST(BFloat16, AllValuesComeBackFromFloat) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = of_bits(bits);
    EXPECT_EQ(std::bit_cast<uint32_t>(value) & 0x7FFFFFFFu, bits << 16 & 0x7FFFFFFFu) << bits;
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(bfloat16(value)))) << bits;
      EXPECT_EQ(rounded(value) >> 15, bits >> 15) << bits;
    } else {
      EXPECT_EQ(rounded(value), bits);
    }
  }
}

// Of any two neighbours: what lies between them goes to the nearer one, the middle to the even one.
TEST(BFloat16, RoundsToNearestTiesToEven) {
  for (uint32_t bits = 0; bits < 0x7F80; ++bits) {  // the last one's neighbour is infinity
    for (const uint32_t sign : {0u, 0x8000u}) {
      const uint32_t low = bits | sign, high = low + 1, even = low % 2 ? high : low;
      EXPECT_EQ(rounded_bits(low << 16 | 1), low);
      EXPECT_EQ(rounded_bits(low << 16 | 0x7FFF), low);
      EXPECT_EQ(rounded_bits(low << 16 | 0x8000), even);
      EXPECT_EQ(rounded_bits(low << 16 | 0x8001), high);
      EXPECT_EQ(rounded_bits(low << 16 | 0xFFFF), high);
    }
  }
}

TEST(BFloat16, KeepsWhatIsNoOrdinaryNumber) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(rounded(kInfinity), 0x7F80u);
  EXPECT_EQ(rounded(-kInfinity), 0xFF80u);
  EXPECT_EQ(rounded(std::numeric_limits<float>::max()), 0x7F80u);
  EXPECT_EQ(rounded(0.0f), 0x0000u);
  EXPECT_EQ(rounded(-0.0f), 0x8000u);
  EXPECT_EQ(rounded(0x1p-133f), 0x0001u);  // the smallest
  EXPECT_EQ(rounded(0x1p-134f), 0x0000u);  // half of it
  EXPECT_EQ(rounded(0x1.8p-134f), 0x0001u);
  // NaNs whose payload is in the lower half alone, which would leave an infinity.
  for (const uint32_t bits : {0x7F800001u, 0xFF800001u, 0x7F80FFFFu, 0xFFFFFFFFu, 0x7FFFFFFFu}) {
    EXPECT_TRUE(std::isnan(static_cast<float>(of_bits(rounded_bits(bits))))) << bits;
  }
}

TEST(BFloat16, HasEightDigits) {
  EXPECT_EQ(rounded(1.0f), 0x3F80u);
  EXPECT_EQ(static_cast<float>(bfloat16(1.0f + 0x1p-8f)), 1.0f);
  EXPECT_EQ(static_cast<float>(bfloat16(1.0f + 0x1.8p-8f)), 1.0f + 0x1p-7f);
  EXPECT_EQ(static_cast<float>(bfloat16(256.0f)), 256.0f);
  EXPECT_EQ(static_cast<float>(bfloat16(257.0f)), 256.0f);
}

TEST(Storage, VisitsTheTypeOfADType) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16}) {
    visit_storage(dtype, [&](auto zero) {
      EXPECT_EQ(sizeof zero, size_of(dtype));
      EXPECT_EQ(sizeof(Accumulator<decltype(zero)>), size_of(accumulator_of(dtype)));
    });
  }
  EXPECT_THROW(visit_storage(DType::kInt32, [](auto) {}), std::logic_error);
}

TEST(Storage, RoundsADouble) {
  constexpr double kThird = 1.0 / 3;
  EXPECT_EQ(rounded_to(DType::kFloat64, kThird), kThird);
  EXPECT_EQ(rounded_to(DType::kFloat32, kThird), static_cast<double>(1.0f / 3));
  EXPECT_EQ(rounded_to(DType::kBFloat16, kThird), 0x1.56p-2);
  EXPECT_EQ(rounded_to(DType::kInt32, 300), 300);
  EXPECT_TRUE(std::isnan(rounded_to(DType::kBFloat16, NAN)));
}

TEST(Storage, FollowsFromTheMath) {
  for (const std::string& name : math_names()) EXPECT_EQ(to_string(math_from(name)), name);
  EXPECT_THROW(math_from("fp8"), std::logic_error);
  EXPECT_EQ(storage_of(Math::kFP32), DType::kFloat32);
  EXPECT_EQ(storage_of(Math::kTF32), DType::kFloat32);
  EXPECT_EQ(storage_of(Math::kBF16), DType::kBFloat16);
}

}  // namespace
}  // namespace duet
