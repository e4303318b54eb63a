// Verdicts that can be trusted, shown with a clock of our own: a machine that is noisy, drifts and
// is interrupted, and arms whose true speeds are known.
#include "measure/time/timing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace duet {
namespace {

/// Time passes only when a workload runs.
class Machine {
 public:
  explicit Machine(uint32_t seed)
      : random_(seed), phase_(std::uniform_real_distribution<>(0, 6)(random_)) {}

  /// An arm whose call takes `seconds` on a calm machine.
  Workload arm(double seconds) {
    return {[this, seconds](int64_t calls) {
      double taken = 0;
      const double work = seconds * static_cast<double>(calls);
      // The clock of the machine swings by 4% within seconds, as one that gets hot.
      taken = work * (1 + 0.04 * std::sin(phase_ + now_));
      taken *= 1 + 0.005 * std::normal_distribution<>()(random_);
      if (random_() % 20 == 0) taken += 0.2 * work;  // another process
      taken += 3e-6;                                 // reading the clock
      now_ += taken;
      return taken;
    }};
  }
  double now() const { return now_; }

 private:
  std::mt19937 random_;
  double phase_ = 0, now_ = 0;
};

int count(Verdict verdict, double a, double b, const TimingPlan& plan) {
  int found = 0;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    Machine machine(seed);
    const auto times = time_interleaved({machine.arm(a), machine.arm(b)}, plan);
    found += speedup(times[0].seconds, times[1].seconds).verdict == verdict;
  }
  return found;
}

TEST(Timing, IdenticalArmsAreTheSame) {
  EXPECT_GE(count(Verdict::kSame, 20e-6, 20e-6, TimingPlan::full()), 95);
  EXPECT_GE(count(Verdict::kSame, 20e-6, 20e-6, TimingPlan::quick()), 95);
  EXPECT_GE(count(Verdict::kSame, 0.3, 0.3, TimingPlan::quick()), 95);  // longer than a block
}

TEST(Timing, FivePerCentAreFound) {
  EXPECT_GE(count(Verdict::kSlower, 21e-6, 20e-6, TimingPlan::full()), 95);
  EXPECT_GE(count(Verdict::kSlower, 21e-6, 20e-6, TimingPlan::quick()), 95);
  EXPECT_GE(count(Verdict::kFaster, 20e-6, 21e-6, TimingPlan::quick()), 95);
}

TEST(Timing, NoPlaceInTheOrderIsBetter) {
  // Whoever runs first in a round finds a rested core.
  int block = 0;
  const auto arm = [&](int64_t calls) {
    return 1e-3 * static_cast<double>(calls) * (block++ % 4 == 0 ? 0.8 : 1);
  };
  const auto make = [&](int) {
    block = 2;  // after the runs that warm up
    return std::vector<std::vector<Workload>>{{{arm}, {arm}}};
  };
  const auto times = time_anew(make, TimingPlan::full())[0];
  EXPECT_EQ(speedup(times[0].seconds, times[1].seconds).verdict, Verdict::kUnclear);
  int first_wins = 0;
  for (size_t i = 0; i < times[0].seconds.size(); ++i) {
    first_wins += times[0].seconds[i] < times[1].seconds[i];
  }
  EXPECT_NEAR(first_wins, static_cast<int>(times[0].seconds.size()) / 2, 1);
}

TEST(Timing, TheSameCodeIsMeasuredNoLongerThanAsked) {
  std::mt19937 random(3);
  const auto wild = [&](int64_t calls) {
    return 1e-3 * static_cast<double>(calls) * (1 + static_cast<double>(random() % 100) / 50);
  };
  const TimingPlan plan = TimingPlan::full();
  const auto times = time_interleaved({{wild, "this"}, {wild, "this"}}, plan);
  EXPECT_EQ(times[0].seconds.size(), static_cast<size_t>(plan.rounds));
  EXPECT_TRUE(same_code(times[0], times[1]));
  const auto others = time_interleaved({{wild, "this"}, {wild, "that"}, {wild}, {wild}}, plan);
  EXPECT_GT(others[0].seconds.size(), static_cast<size_t>(plan.rounds));
  EXPECT_FALSE(same_code(others[0], others[1]));
  EXPECT_FALSE(same_code(others[2], others[3]));  // it is not known of which
}

TEST(Timing, ThePairedRatioIsTheTrueOne) {
  for (const double factor : {0.5, 1.3, 7.0}) {
    Machine machine(1);
    const auto times =
        time_interleaved({machine.arm(1e-5), machine.arm(factor * 1e-5)}, TimingPlan::full());
    const Ratio ratio = speedup(times[0].seconds, times[1].seconds);
    EXPECT_NEAR(ratio.speedup, factor, 0.01 * factor);
    EXPECT_LE(ratio.low, ratio.speedup);
    EXPECT_GE(ratio.high, ratio.speedup);
  }
}

TEST(Timing, ArmsInOrderOneAfterTheOtherWouldBeFooled) {
  // What interleaving is for: a machine that slows down by 10% while it is measured.
  double now = 0;
  const auto arm = [&](int64_t calls) {
    const double taken = static_cast<double>(calls) * 1e-5 * (1 + 0.1 * std::min(1.0, now / 2));
    now += taken;
    return taken;
  };
  const auto times = time_interleaved({{arm}, {arm}}, TimingPlan::full());
  EXPECT_GT(times[0].seconds.back(), 1.05 * times[0].seconds.front());
  EXPECT_EQ(speedup(times[0].seconds, times[1].seconds).verdict, Verdict::kSame);
}

TEST(Timing, ASteadyDriftCancelsWithinARound) {
  double block = 0;
  const auto arm = [&](int64_t calls) { return static_cast<double>(calls) * (1 + 0.1 * block++); };
  // A B C C B A: blocks 0 and 5, 1 and 4, 2 and 3.
  for (const double seconds : time_round({{arm}, {arm}, {arm}}, {1, 1, 1})) {
    EXPECT_DOUBLE_EQ(seconds, 1.25);
  }
}

// An instance whose first call takes a second, and each of the others a millisecond.
Workload instance_with_a_slow_first_call() {
  return {[first = true](int64_t calls) mutable {
    const double taken = 1e-3 * static_cast<double>(calls) + (first ? 1 : 0);
    first = false;
    return taken;
  }};
}

TEST(Timing, AFirstCallIsNotCounted) {
  EXPECT_EQ(calls_for(instance_with_a_slow_first_call(), 0.01), 10);
  const auto make = [](int) {
    return std::vector<std::vector<Workload>>{{instance_with_a_slow_first_call()}};
  };
  const auto times = time_anew(make, {.block_seconds = 0.01, .rounds = 3})[0][0];
  EXPECT_EQ(times.calls, 10);
  ASSERT_EQ(times.seconds.size(), 3u);
  for (const double seconds : times.seconds) EXPECT_DOUBLE_EQ(seconds, 1e-3);
}

// Instances of an arm that are up to 1.75% faster or slower for as long as they live, as the 140 to
// 145 us of one training step on an H200.
int count_instances(bool anew, Verdict verdict, double a, double b, const TimingPlan& plan) {
  int found = 0;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    Machine machine(seed);
    std::mt19937 random(seed);
    std::uniform_real_distribution<> place(0.9825, 1.0175);
    const auto make = [&](int) {
      return std::vector<std::vector<Workload>>{
          {machine.arm(a * place(random)), machine.arm(b * place(random))}};
    };
    const auto times = anew ? time_anew(make, plan)[0] : time_interleaved(make(0)[0], plan);
    found += speedup(times[0].seconds, times[1].seconds).verdict == verdict;
  }
  return found;
}

TEST(Timing, AnInstanceMakesNoVerdictWhereEveryRoundHasItsOwn) {
  for (const TimingPlan& plan : {TimingPlan::full(), TimingPlan::quick()}) {
    EXPECT_GE(count_instances(true, Verdict::kSame, 20e-6, 20e-6, plan), 75);  // else unclear
    EXPECT_LE(count_instances(true, Verdict::kFaster, 20e-6, 20e-6, plan), 2);
    EXPECT_LE(count_instances(true, Verdict::kSlower, 20e-6, 20e-6, plan), 2);
    EXPECT_GE(count_instances(true, Verdict::kSlower, 21e-6, 20e-6, plan), 95);
    // What it is for: one instance, however often it is run.
    EXPECT_GE(count_instances(false, Verdict::kSlower, 20e-6, 20e-6, plan), 10);
  }
}

TEST(Timing, WhatIsMissingInAContestHasNoTimes) {
  int made = 0;
  const auto arm = [](int64_t calls) { return 1e-3 * static_cast<double>(calls); };
  const auto make = [&](int round) {
    EXPECT_EQ(round, made++ - 1);
    return std::vector<std::vector<Workload>>{{{arm}, {}, {arm}}, {{arm}}};
  };
  const auto times = time_anew(make, {.block_seconds = 0.01, .rounds = 3, .most_rounds = 3});
  EXPECT_EQ(made, 4);
  ASSERT_EQ(times.size(), 2u);
  EXPECT_EQ(times[0][0].seconds.size(), 3u);
  EXPECT_TRUE(times[0][1].seconds.empty());
  EXPECT_DOUBLE_EQ(times[0][2].seconds[1], 1e-3);
  EXPECT_EQ(times[1][0].calls, 10);
}

TEST(Timing, WhatIsLostOnTheWayIsNotCompared) {
  // Noisy enough for more rounds, if they were compared.
  std::mt19937 random(5);
  const auto arm = [&](int64_t calls) {
    return 1e-3 * static_cast<double>(calls) * (1 + static_cast<double>(random() % 100) / 50);
  };
  for (const size_t lost : {0, 1}) {
    const auto make = [&](int round) {
      std::vector<Workload> group = {{arm}, {arm}};
      if (round > 2) group[lost] = {};
      return std::vector<std::vector<Workload>>{group};
    };
    const auto times = time_anew(make, {.block_seconds = 0.01, .rounds = 6, .most_rounds = 12});
    EXPECT_EQ(times[0][lost].seconds.size(), 3u);
    EXPECT_EQ(times[0][1 - lost].seconds.size(), 6u);
  }
}

TEST(Timing, BlocksAreLongEnoughAndRoundsAreAddedWhileUnclear) {
  int64_t calls_of_blocks = 0, blocks = 0;
  std::mt19937 random(3);
  const auto calm = [&](int64_t calls) {
    calls_of_blocks = calls;
    ++blocks;
    return 1e-3 * static_cast<double>(calls);
  };
  const TimingPlan plan = TimingPlan::full();
  const auto times = time_interleaved({{calm}, {calm}}, plan);
  EXPECT_EQ(times[0].seconds.size(), static_cast<size_t>(plan.rounds));
  EXPECT_GE(1e-3 * static_cast<double>(times[0].calls), plan.block_seconds * 0.99);
  EXPECT_EQ(calls_of_blocks, times[1].calls);

  const auto wild = [&](int64_t calls) {
    return 1e-3 * static_cast<double>(calls) * (1 + static_cast<double>(random() % 100) / 50);
  };
  const auto unclear = time_interleaved({{wild}, {wild}}, plan);
  EXPECT_GT(unclear[0].seconds.size(), static_cast<size_t>(plan.rounds));
  EXPECT_LE(unclear[0].seconds.size(), static_cast<size_t>(plan.most_rounds));
  // One verdict is enough, whichever it is.
  const auto near_calm = [&](int64_t calls) {
    return 1e-3 * static_cast<double>(calls) * (0.9 + static_cast<double>(random() % 100) / 500);
  };
  const auto last_unclear = time_interleaved({{calm}, {calm}, {near_calm}}, plan);
  EXPECT_GT(last_unclear[0].seconds.size(), static_cast<size_t>(plan.rounds));
}

TEST(Statistics, Quantiles) {
  EXPECT_EQ(quantile({3, 1, 2}, 0.5), 2);
  EXPECT_EQ(quantile({1, 2}, 0.5), 1.5);
  EXPECT_EQ(quantile({5}, 0.2), 5);
  EXPECT_EQ(quantile({0, 10}, 0.2), 2);
}

// Two samples of a short time are often equal, and 0.8 x + 0.2 x may be more than x.
TEST(Statistics, AQuantileOfEqualValuesIsThatValue) {
  for (int i = 1; i <= 1000; ++i) {
    const double value = 1e-9 * i;
    const Summary summary = summarise({value, value});
    EXPECT_EQ(summary.p20, value);
    EXPECT_EQ(summary.median, value);
    EXPECT_EQ(summary.p80, value);
  }
}

TEST(Statistics, IntervalOfTheMedian) {
  std::vector<double> ratios;
  for (int i = 1; i <= 11; ++i) ratios.push_back(i);
  const Ratio ratio = speedup(std::vector<double>(11, 1.0), ratios);
  EXPECT_EQ(ratio.speedup, 6);
  // At most 1 of 11 coins shows heads with a chance of 0.6%, at most 2 with 3.3%: 0.8% is between.
  EXPECT_EQ(ratio.low, 2);
  EXPECT_EQ(ratio.high, 10);
}

TEST(Statistics, FewRoundsGiveNoVerdict) {
  EXPECT_EQ(speedup(std::vector<double>(6, 1.0), std::vector<double>(6, 2.0)).verdict,
            Verdict::kUnclear);
  EXPECT_EQ(speedup(std::vector<double>(7, 1.0), std::vector<double>(7, 2.0)).verdict,
            Verdict::kFaster);
  const Ratio one = speedup({1}, {2});
  EXPECT_EQ(one.low, 2);
  EXPECT_EQ(one.high, 2);
}

TEST(Statistics, LookingAfterEveryRoundStaysWithinFivePerCent) {
  // Two equal arms, each the faster one of a round with a chance of 1/2, by a factor of 10.
  int wrong = 0;
  std::mt19937 random(1);
  for (int run = 0; run < 2000; ++run) {
    std::vector<double> a, b;
    for (size_t round = 1; round <= 30; ++round) {
      a.push_back(1);
      b.push_back(random() % 2 ? 10 : 0.1);
      if (round >= kLeastRounds && speedup(a, b).verdict != Verdict::kUnclear) {
        ++wrong;
        break;
      }
    }
  }
  EXPECT_LE(wrong, 130);  // 100 are expected, with a deviation of 10
  EXPECT_GE(wrong, 60);
}

TEST(Statistics, Verdicts) {
  EXPECT_EQ(verdict_of(0.99, 1.01), Verdict::kSame);
  EXPECT_EQ(verdict_of(1.012, 1.018), Verdict::kSame);
  EXPECT_EQ(verdict_of(1.015, 1.05), Verdict::kFaster);
  EXPECT_EQ(verdict_of(0.9, 0.97), Verdict::kSlower);
  EXPECT_EQ(verdict_of(0.97, 1.03), Verdict::kUnclear);
  EXPECT_EQ(verdict_of(1.005, 1.04), Verdict::kUnclear);
  // On both sides of every bound.
  EXPECT_EQ(verdict_of(0.981, 1.019), Verdict::kSame);
  EXPECT_EQ(verdict_of(0.979, 1), Verdict::kUnclear);
  EXPECT_EQ(verdict_of(1, 1.021), Verdict::kUnclear);
  EXPECT_EQ(verdict_of(1.011, 1.05), Verdict::kFaster);
  EXPECT_EQ(verdict_of(1.009, 1.05), Verdict::kUnclear);
  EXPECT_EQ(verdict_of(0.95, 0.989), Verdict::kSlower);
  EXPECT_EQ(verdict_of(0.95, 0.991), Verdict::kUnclear);
}

TEST(Statistics, SpeedupOfSeparateRuns) {
  const std::vector<double> slow = {20, 21, 19, 20, 22, 20, 18},
                            fast = {10, 10.5, 9.5, 10, 11, 10, 9};
  const Ratio ratio = speedup_unpaired(fast, slow);
  EXPECT_DOUBLE_EQ(ratio.speedup, 2);
  EXPECT_LT(ratio.low, 2);
  EXPECT_GT(ratio.low, 1.6);
  EXPECT_GT(ratio.high, 2);
  EXPECT_EQ(ratio.verdict, Verdict::kFaster);
  EXPECT_EQ(speedup_unpaired({1, 1, 1}, {2, 2}).verdict, Verdict::kUnclear);  // of too few
}

TEST(Statistics, DifferenceOfMeans) {
  const Difference apart = difference_of_means({0.91, 0.92, 0.90, 0.91}, {0.81, 0.82, 0.80, 0.81});
  EXPECT_NEAR(apart.mean, 0.1, 1e-12);
  EXPECT_GT(apart.low, 0.08);
  EXPECT_LT(apart.high, 0.12);
  const Difference same = difference_of_means({0.91, 0.92, 0.90}, {0.92, 0.91, 0.90});
  EXPECT_LT(same.low, 0);
  EXPECT_GT(same.high, 0);
}

TEST(Timing, SecondsOfWorkOnTheCpu) {
  Context context(Device::kCpu);
  int calls = 0;
  const double seconds = seconds_of(
      context, [&] { ++calls; }, 1000);
  EXPECT_EQ(calls, 1000);
  EXPECT_GT(seconds, 0);
  EXPECT_LT(seconds, 1);
}

}  // namespace
}  // namespace duet
