#include "core/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace duet {
namespace {

TEST(Pack, SharesWhatIsNeverNeededAtTheSameTime) {
  const Packing packing = pack({{1000, 0, 1}, {500, 1, 2}, {1000, 2, 3}, {300, 0, 3}});
  EXPECT_EQ(packing.offsets, (std::vector<size_t>{0, 1024, 0, 1536}));
  EXPECT_EQ(packing.bytes, 1024u + 512 + 512);
}

TEST(Pack, NothingTakesNothing) {
  EXPECT_EQ(pack({}).bytes, 0u);
  EXPECT_EQ(pack({{0, 0, 5}, {0, 0, 5}}).bytes, 0u);
}

TEST(Pack, NeverOverlapsWhatIsNeededAtTheSameTime) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<Lifetime> ranges(random() % 40);
    for (Lifetime& range : ranges) {
      range.first = static_cast<int>(random() % 20);
      range.last = range.first + static_cast<int>(random() % 8);
      range.bytes = random() % 3000;
    }
    const Packing packing = pack(ranges);
    size_t most = 0, sum = 0;
    for (int moment = 0; moment < 28; ++moment) {
      size_t now = 0;
      for (const Lifetime& range : ranges) {
        if (range.first <= moment && moment <= range.last) now += align_up(range.bytes);
      }
      most = std::max(most, now);
    }
    for (size_t i = 0; i < ranges.size(); ++i) {
      sum += align_up(ranges[i].bytes);
      EXPECT_EQ(packing.offsets[i] % kAlignment, 0u);
      EXPECT_LE(packing.offsets[i] + ranges[i].bytes, packing.bytes);
      for (size_t j = 0; j < i; ++j) {
        if (!ranges[i].overlaps(ranges[j])) continue;
        EXPECT_TRUE(packing.offsets[i] + ranges[i].bytes <= packing.offsets[j] ||
                    packing.offsets[j] + ranges[j].bytes <= packing.offsets[i]);
      }
    }
    EXPECT_GE(packing.bytes, most);
    EXPECT_LE(packing.bytes, sum);
  }
}

}  // namespace
}  // namespace duet
