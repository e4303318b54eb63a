#include "core/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace duet {
namespace {

constexpr int64_t kMuch = 1 << 30;

// How often each index of [0, count) was visited must be once.
void expect_once(const std::vector<std::atomic<int>>& visits) {
  for (size_t i = 0; i < visits.size(); ++i) ASSERT_EQ(visits[i], 1) << "index " << i;
}

TEST(Parallel, VisitsEveryIndexOnce) {
  for (int64_t count : {0, 1, 2, 3, 16, 1000}) {
    for (int64_t operations : {int64_t{0}, kMuch}) {
      std::vector<std::atomic<int>> visits(count);
      parallel_for(count, operations, [&](int64_t i) { ++visits[i]; });
      expect_once(visits);
    }
  }
}

TEST(Parallel, LoopsFollowEachOtherClosely) {
  std::vector<int> values(64);
  for (int round = 0; round < 5000; ++round) {
    parallel_for(64, kMuch, [&](int64_t i) { values[i] += static_cast<int>(i); });
  }
  for (int i = 0; i < 64; ++i) ASSERT_EQ(values[i], 5000 * i);
}

TEST(Parallel, RangesMakeUpTheWhole) {
  for (int64_t count : {int64_t{0}, int64_t{1}, int64_t{12345}, 3 * kWorthSharing + 1}) {
    std::vector<std::atomic<int>> visits(count);
    parallel_ranges(count, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) ++visits[i];
    });
    expect_once(visits);
  }
}

TEST(Parallel, LoopsWithinLoopsAndFromManyThreads) {
  std::vector<std::atomic<int>> visits(4 * 8 * 16);
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      parallel_for(8, kMuch, [&](int64_t i) {
        parallel_for(16, kMuch, [&](int64_t j) { ++visits[(t * 8 + i) * 16 + j]; });
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  expect_once(visits);
}

TEST(Parallel, LoopsStopWhereAsked) {
  static std::atomic<int64_t> visits;
  visits = 0;
  const auto count = [] { parallel_for(1000, kMuch, [](int64_t) { ++visits; }); };
  {
    const LoopStop stop([] { return visits >= 10; });
    count();
    EXPECT_GE(visits, 10);
    EXPECT_LT(visits, 10 + cpu_threads());
  }
  visits = 0;
  count();
  EXPECT_EQ(visits, 1000);
}

}  // namespace
}  // namespace duet
