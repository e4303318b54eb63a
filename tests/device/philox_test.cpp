#include "device/philox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace duet {
namespace {

void expect_words(const Philox4& found, const uint32_t (&expected)[4]) {
  for (int i = 0; i < 4; ++i) EXPECT_EQ(found.v[i], expected[i]) << "word " << i;
}

// Known answers of Random123 (kat_vectors, philox 4x32 10).
TEST(Philox, KnownAnswers) {
  expect_words(philox4x32({0, 0, 0, 0}, 0), {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u});
  const uint32_t ones = 0xFFFFFFFFu;
  expect_words(philox4x32({ones, ones, ones, ones}, ~uint64_t{0}),
               {0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu});
  expect_words(
      philox4x32({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, 0x299f31d0a4093822u),
      {0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u});
}

TEST(Philox, BlocksDifferInEveryCoordinate) {
  std::set<uint32_t> first;
  for (uint64_t seed : {0ull, 1ull, 1ull << 32}) {
    for (uint64_t step : {0ull, 1ull, 1ull << 32}) {
      for (uint32_t stream : {0u, 1u, kStreamShuffle}) {
        for (uint32_t index : {0u, 1u}) {
          first.insert(philox_block(seed, step, stream, index).v[0]);
        }
      }
    }
  }
  EXPECT_EQ(first.size(), 3u * 3 * 3 * 2);
}

TEST(Philox, UniformFloatsAreInRangeAndEven) {
  EXPECT_EQ(uniform_float(0), 0.0f);
  EXPECT_LT(uniform_float(0xFFFFFFFFu), 1.0f);
  double sum = 0;
  constexpr int kBlocks = 10000;
  for (uint32_t i = 0; i < kBlocks; ++i) {
    for (uint32_t word : philox_block(42, 7, 1, i).v) sum += uniform_float(word);
  }
  const double n = 4.0 * kBlocks;
  EXPECT_NEAR(sum / n, 0.5, 5 * std::sqrt(1.0 / 12 / n));
}

}  // namespace
}  // namespace duet
