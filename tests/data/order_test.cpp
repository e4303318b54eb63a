// The order of samples: a bijection for every count, another one for every epoch and seed, and as
// uniform as a fair shuffle where that can be counted.
#include "data/batch/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace duet {
namespace {

std::vector<uint32_t> order(uint32_t count, uint64_t seed, uint64_t epoch) {
  std::vector<uint32_t> result(count);
  for (uint32_t i = 0; i < count; ++i) result[i] = shuffled(i, count, seed, epoch);
  return result;
}

TEST(Order, IsABijection) {
  for (uint32_t count : {1, 2, 3, 7, 15, 16, 17, 64, 65, 1000, 1023, 60000, 65536, 65537}) {
    for (uint64_t seed : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
      std::vector<uint32_t> sorted = order(count, seed, 3);
      std::sort(sorted.begin(), sorted.end());
      for (uint32_t i = 0; i < count; ++i) ASSERT_EQ(sorted[i], i) << count << " seed " << seed;
    }
  }
}

TEST(Order, TakesTheLargestCount) {
  const uint32_t count = uint32_t{1} << 31;
  for (uint32_t i : {uint32_t{0}, count / 2, count - 1}) EXPECT_LT(shuffled(i, count, 5, 6), count);
}

TEST(Order, DiffersByEpochAndSeed) {
  EXPECT_EQ(order(1000, 1, 0), order(1000, 1, 0));
  EXPECT_NE(order(1000, 1, 0), order(1000, 1, 1));
  EXPECT_NE(order(1000, 1, 0), order(1000, 2, 0));
  EXPECT_NE(order(1000, 1, 0), order(1000, 1, uint64_t{1} << 32));
}

double chi_square(const std::vector<int64_t>& counts) {
  double total = 0;
  for (int64_t c : counts) total += static_cast<double>(c);
  const double expected = total / static_cast<double>(counts.size());
  double sum = 0;
  for (int64_t c : counts) {
    sum += (static_cast<double>(c) - expected) * (static_cast<double>(c) - expected) / expected;
  }
  return sum;
}

// Five standard deviations of a chi-square of n-1 degrees; the draws are fixed, so it holds or not.
double limit(size_t n) {
  const double degrees = static_cast<double>(n - 1);
  return degrees + 5 * std::sqrt(2 * degrees) + 5;
}

// Where sample `i` stands over many seeds, and over many epochs of one seed.
TEST(Order, SpreadsASampleOverAllPositions) {
  for (uint32_t count : {2, 3, 7, 10, 16, 64, 100}) {
    for (uint32_t i : {uint32_t{0}, count / 2, count - 1}) {
      std::vector<int64_t> by_seed(count), by_epoch(count);
      for (uint64_t k = 0; k < 500 * count; ++k) {
        ++by_seed[shuffled(i, count, k, 0)];
        ++by_epoch[shuffled(i, count, 42, k)];
      }
      EXPECT_LT(chi_square(by_seed), limit(count)) << "count " << count << " position " << i;
      EXPECT_LT(chi_square(by_epoch), limit(count)) << "count " << count << " position " << i;
    }
  }
}

// All 4! and 5! orders, not only the places of one sample, come up equally often.
TEST(Order, EveryPermutationOfAFewIsEquallyLikely) {
  for (uint32_t count : {3u, 4u, 5u}) {
    std::vector<uint32_t> sorted(count);
    for (uint32_t i = 0; i < count; ++i) sorted[i] = i;
    std::vector<std::vector<uint32_t>> all;
    do {
      all.push_back(sorted);
    } while (std::next_permutation(sorted.begin(), sorted.end()));
    std::vector<int64_t> seen(all.size());
    for (uint64_t seed = 0; seed < 200 * all.size(); ++seed) {
      const auto it = std::lower_bound(all.begin(), all.end(), order(count, seed, 0));
      ++seen[it - all.begin()];
    }
    EXPECT_LT(chi_square(seen), limit(all.size())) << count;
  }
}

// A random permutation has one fixed point on average, and its neighbours stay neighbours (i+1
// right after i) less than once.
TEST(Order, HasNoExcessOfFixedPointsOrNeighbours) {
  constexpr uint32_t kCount = 1000;
  constexpr int kOrders = 400;
  int64_t fixed = 0, neighbours = 0;
  for (uint64_t seed = 0; seed < kOrders; ++seed) {
    const std::vector<uint32_t> o = order(kCount, seed, 1);
    for (uint32_t i = 0; i < kCount; ++i) {
      fixed += o[i] == i;
      neighbours += i > 0 && o[i] == o[i - 1] + 1;
    }
  }
  // Both are nearly Poisson with mean kOrders = 400, standard deviation 20.
  EXPECT_NEAR(static_cast<double>(fixed), kOrders, 100);
  EXPECT_NEAR(static_cast<double>(neighbours), kOrders, 100);
}

// The first batches of an epoch draw evenly from a data set sorted by class.
TEST(Order, MixesASortedDataSet) {
  std::vector<int64_t> classes(10);
  for (uint64_t epoch = 0; epoch < 20; ++epoch) {
    for (uint32_t i = 0; i < 1000; ++i) ++classes[shuffled(i, 60000, 7, epoch) / 6000];
  }
  EXPECT_LT(chi_square(classes), limit(10));
}

}  // namespace
}  // namespace duet
