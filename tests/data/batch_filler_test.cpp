// The threads that fill batches ahead: every part once, in places that are free, and an end in every
// state.
#include "data/batch/batch_filler.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <map>
#include <set>
#include <stdexcept>

#include "support/text.h"

namespace duet {
namespace {

constexpr size_t kSlots = 3, kParts = 4;

class Filling : public testing::TestWithParam<int> {
 protected:
  BatchFiller::Options options(std::function<void(uint64_t, size_t)> fill) const {
    return {.slots = kSlots, .parts = kParts, .threads = GetParam(), .fill = std::move(fill)};
  }
};
// Without threads who waits for a batch fills it.
INSTANTIATE_TEST_SUITE_P(Threads, Filling, testing::Values(0, 1, 5));

TEST_P(Filling, EveryPartIsFilledOnceAndNoPlaceTooEarly) {
  std::mutex mutex;
  std::map<uint64_t, std::multiset<size_t>> filled;
  std::array<std::array<std::atomic<uint64_t>, kParts>, kSlots> places{};
  std::atomic<uint64_t> released = 0;  // batches below
  std::atomic<int> early = 0;
  BatchFiller filler(options([&](uint64_t batch, size_t part) {
    if (batch >= released + kSlots) ++early;
    places[batch % kSlots][part] = batch;
    const std::lock_guard lock(mutex);
    filled[batch].insert(part);
  }));
  filler.seek(7);
  released = 7;
  filler.fill_up_to(100);
  for (uint64_t batch = 7; batch < 50; ++batch) {
    EXPECT_TRUE(filler.wait(batch));
    EXPECT_TRUE(filler.is_done(batch));
    for (const auto& part : places[batch % kSlots]) EXPECT_EQ(part, batch);
    ++released;
    filler.release();
    EXPECT_EQ(filler.first(), batch + 1);
  }
  filler.seek(1000);
  EXPECT_EQ(early, 0);
  for (uint64_t batch = 7; batch < 50; ++batch) {
    EXPECT_EQ(filled[batch], std::multiset<size_t>({0, 1, 2, 3})) << batch;
  }
}

TEST_P(Filling, BeginsAnewAnywhereAndEndsWhereItIsTold) {
  std::atomic<uint64_t> last = 0;
  BatchFiller filler(options([&](uint64_t batch, size_t) {
    if (batch > last) last = batch;
  }));
  for (const uint64_t first : {uint64_t{5}, uint64_t{100}, uint64_t{2}}) {
    filler.seek(first);
    last = 0;
    filler.fill_up_to(first + 2);
    EXPECT_TRUE(filler.wait(first));
    filler.release();
    EXPECT_TRUE(filler.wait(first + 1));
    filler.release();
    EXPECT_EQ(last, first + 1);
    filler.fill_up_to(first + 3);
    EXPECT_TRUE(filler.wait(first + 2));
  }
}

TEST_P(Filling, OfSeveralErrorsTheFirstPartsIsThrownWithItsBatch) {
  BatchFiller filler(options([](uint64_t batch, size_t part) {
    if (batch == 2 && part > 0) throw std::runtime_error("part " + std::to_string(part));
  }));
  filler.seek(0);
  filler.fill_up_to(100);
  for (uint64_t batch = 0; batch < 2; ++batch) {
    EXPECT_TRUE(filler.wait(batch));
    filler.release();
  }
  EXPECT_EQ(error_of<std::exception>([&] { filler.wait(2); }), "part 1");
  EXPECT_EQ(error_of<std::exception>([&] { filler.wait(2); }), "part 1");
  filler.release();
  EXPECT_TRUE(filler.wait(3));  // a batch of its own
}

TEST(BatchFiller, WhoWaitsCanBeCalledAway) {
  std::atomic<bool> begun = false, goes_on = false;
  static std::atomic<bool> stop = false;
  BatchFiller filler({.slots = 2, .parts = 1, .threads = 1, .fill = [&](uint64_t, size_t) {
                        begun = true;
                        while (!goes_on) std::this_thread::yield();
                      }});
  filler.seek(0);
  filler.fill_up_to(1);
  while (!begun) std::this_thread::yield();  // or the caller would fill the part
  std::thread later([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    stop = true;
  });
  EXPECT_FALSE(filler.wait(0, [] { return stop.load(); }));
  later.join();
  goes_on = true;
  EXPECT_TRUE(filler.wait(0));
}

TEST(BatchFiller, EndsAtAnyMoment) {
  for (int i = 0; i < 50; ++i) {
    std::atomic<int> inside = 0;
    {
      BatchFiller filler({.slots = 4, .parts = 3, .threads = 3, .fill = [&](uint64_t, size_t) {
                            ++inside;
                            std::this_thread::sleep_for(std::chrono::microseconds(20));
                            --inside;
                          }});
      if (i % 3 > 0) filler.seek(0);
      if (i % 3 > 0) filler.fill_up_to(100);
      if (i % 3 > 1) filler.wait(1);
    }
    EXPECT_EQ(inside, 0);
  }
}

TEST(BatchFiller, RecordsWhatItFills) {
  BatchFiller filler({.slots = 2, .parts = 2, .threads = 2, .fill = [](uint64_t, size_t) {}});
  filler.record();
  filler.seek(3);
  filler.fill_up_to(4);
  filler.wait(3);
  const std::vector<BatchFiller::Filled> filled = filler.recorded();
  ASSERT_EQ(filled.size(), 2u);
  for (const BatchFiller::Filled& part : filled) {
    EXPECT_EQ(part.batch, 3u);
    EXPECT_LE(part.start, part.end);
    EXPECT_LE(part.thread, 2);
  }
  filler.fill_up_to(5);
  filler.wait(4);
  EXPECT_TRUE(filler.recorded().empty());
}

}  // namespace
}  // namespace duet
