#include "measure/time/timing.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <numeric>
#include <random>
#include <utility>

#include "core/error.h"
#include "core/interrupt.h"
#include "device/step_graph.h"
#include "device/stopwatch.h"

namespace duet {
namespace {

constexpr int64_t kMostCalls = int64_t{1} << 20;
constexpr int kProbes = 3;
constexpr double kLeastSeconds = 20e-6;  // that a clock measures well

// Between the first and any that was in all of its rounds.
bool is_unclear(const std::vector<Times>& times) {
  for (size_t i = 1; i < times.size(); ++i) {
    const size_t rounds = times[i].seconds.size();
    if (rounds == 0 || rounds != times[0].seconds.size()) continue;
    if (same_code(times[0], times[i])) continue;
    if (speedup(times[0].seconds, times[i].seconds).verdict == Verdict::kUnclear) return true;
  }
  return false;
}

int64_t calls_of(double block_seconds, double seconds) {
  const double calls = std::ceil(block_seconds / seconds);
  return static_cast<int64_t>(std::clamp(calls, 1.0, static_cast<double>(kMostCalls)));
}

// In what order the workloads run, round by round: at random, and the next round the other way
// round. What a place in the order costs (the first may find a rested core) favours nobody then,
// and which of two equal workloads is faster in a round is the toss of a coin, whatever the noise.
class Orders {
 public:
  std::vector<size_t> next(size_t count) {
    if (order_.size() == count && !reversed_) {
      std::reverse(order_.begin(), order_.end());
      reversed_ = true;
      return order_;
    }
    order_.resize(count);
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::shuffle(order_.begin(), order_.end(), random_);
    reversed_ = false;
    return order_;
  }

 private:
  std::mt19937 random_{20240607};
  std::vector<size_t> order_;
  bool reversed_ = false;
};

// One round of one group, of workloads that are new in it or have been there since the first.
// It only warms up if `counts` is false.
void run_group(const std::vector<Workload>& all, double block_seconds, bool anew, bool counts,
               Orders* orders, std::vector<Times>* times) {
  times->resize(all.size());
  std::vector<Workload> workloads;
  std::vector<int64_t> calls;
  std::vector<Times*> present;
  for (const size_t i : orders->next(all.size())) {
    if (!all[i].seconds) continue;
    Times& own = (*times)[i];
    own.code = all[i].code;
    if (own.calls == 0) {
      own.calls = calls_for(all[i], block_seconds);
    } else if (anew) {
      all[i].seconds((own.calls + 3) / 4);  // what is new has to warm up
    }
    workloads.push_back(all[i]);
    calls.push_back(own.calls);
    present.push_back(&own);
  }
  const std::vector<double> seconds = time_round(workloads, calls);
  for (size_t k = 0; counts && k < present.size(); ++k) {
    present[k]->seconds.push_back(seconds[k]);
    // Where the calls were counted on a busy machine, and this round was calmer.
    present[k]->calls = std::max(present[k]->calls, calls_of(block_seconds, seconds[k]));
  }
}

// Whether the rounds have taken as long as most_rounds of them take on a calm machine. On a busy
// one more of them would cost a multiple of that, and leave most verdicts unclear all the same.
bool is_long(const std::vector<std::vector<Times>>& groups, const TimingPlan& plan) {
  double spent = 0, calm = 0;
  for (const auto& group : groups) {
    for (const Times& each : group) {
      if (each.seconds.empty()) continue;
      const auto calls = static_cast<double>(each.calls);
      for (const double seconds : each.seconds) spent += calls * seconds;
      calm +=
          std::max(plan.block_seconds, *std::min_element(each.seconds.begin(), each.seconds.end()));
    }
  }
  return spent > plan.most_rounds * calm;
}

std::vector<std::vector<Times>> time_rounds(const MakeGroups& groups, const TimingPlan& plan,
                                            bool anew) {
  std::vector<std::vector<Times>> times;
  std::vector<Orders> orders;
  for (int round = -1; round < plan.most_rounds; ++round) {  // round -1 warms up
    if (round >= plan.rounds &&
        (std::none_of(times.begin(), times.end(), is_unclear) || is_long(times, plan))) {
      break;
    }
    const auto all = groups(round);
    times.resize(all.size());
    orders.resize(all.size());
    for (size_t i = 0; i < all.size(); ++i) {
      run_group(all[i], plan.block_seconds, anew, round >= 0, &orders[i], &times[i]);
    }
  }
  return times;
}

}  // namespace

int64_t calls_for(const Workload& workload, double block_seconds) {
  constexpr double kNone = std::numeric_limits<double>::max();
  workload.seconds(1);  // pays for what only a first call does
  // The least of all probes: other processes have the core in some of them. For that reason a probe
  // that seems long enough is repeated.
  double least = kNone;  // seconds of one call
  for (int64_t calls = 1; calls <= kMostCalls; calls *= 2) {
    const double enough = block_seconds / 4 / static_cast<double>(calls);
    for (int probe = 0; probe < kProbes; ++probe) {
      const double seconds = workload.seconds(calls);
      if (seconds < kLeastSeconds && calls < kMostCalls) break;
      least = std::min(least, seconds / static_cast<double>(calls));
      if (least < enough || least > 4 * block_seconds) break;
    }
    if (least >= enough && least != kNone) break;
  }
  return calls_of(block_seconds, least);
}

std::vector<double> time_round(const std::vector<Workload>& workloads,
                               const std::vector<int64_t>& calls) {
  std::vector<double> seconds(workloads.size(), 0.0);
  const auto half = [&](size_t i) {
    return workloads[i].seconds(calls[i]) / static_cast<double>(calls[i]) / 2;
  };
  for (size_t i = 0; i < workloads.size(); ++i) seconds[i] += half(i);
  for (size_t i = workloads.size(); i-- > 0;) seconds[i] += half(i);
  return seconds;
}

std::vector<Times> time_interleaved(const std::vector<Workload>& workloads,
                                    const TimingPlan& plan) {
  return time_rounds([&](int) { return std::vector<std::vector<Workload>>{workloads}; }, plan,
                     false)[0];
}

std::vector<std::vector<Times>> time_anew(const MakeGroups& make, const TimingPlan& plan) {
  return time_rounds(make, plan, true);
}

void Displacement::grow() {
  constexpr size_t kHalfPage = size_t{1} << 20;  // a GPU maps memory in pages of 2 MiB
  try {
    kept_.emplace_back(device_, kHalfPage * (2 + kept_.size() % 5));
  } catch (const OutOfMemoryError&) {
  } catch (const std::bad_alloc&) {
  }
}

double seconds_of(Context& context, const std::function<void()>& work, int64_t calls) {
  Stopwatch stopwatch(context);
  context.synchronize();
  double seconds = 0;
  {
    const LoopStop unfinished_loops(InterruptGuard::requested);
    stopwatch.start();
    for (int64_t i = 0; i < calls && !InterruptGuard::requested(); ++i) work();
    seconds = stopwatch.stop();
  }
  context.synchronize();
  InterruptGuard::check();
  return seconds;
}

Workload Workload::of(Context& context, std::function<void()> work, std::string code) {
  return {[&context, work = std::move(work)](int64_t calls) {
            return seconds_of(context, work, calls);
          },
          std::move(code)};
}

int calls_in_graph(Context& context, StepGraph& once, int most) {
  constexpr double kGraphSeconds = 1e-3;
  const double seconds = seconds_of(
                             context, [&] { once.launch(); }, 3) /
                         3;
  return std::clamp(static_cast<int>(kGraphSeconds / seconds), 1, most);
}

double least_seconds_of(Context& context, const std::function<void()>& work, int tries) {
  double least = seconds_of(context, work, 1);
  for (int i = 1; i < tries; ++i) least = std::min(least, seconds_of(context, work, 1));
  return least;
}

}  // namespace duet
