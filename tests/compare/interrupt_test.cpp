// Ctrl-C: everything that takes long looks at it, and calls it nobody's fault.
#include "core/interrupt.h"

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <ctime>
#include <functional>
#include <nlohmann/json.hpp>

#include "compare/measure/in_network.h"
#include "compare/measure/step_times.h"
#include "compare/measure/training_comparison.h"
#include "core/error.h"
#include "measure/time/ceilings.h"
#include "measure/time/measure_pass.h"
#include "net/auto_trial.h"
#include "support/case_rig.h"
#include "support/layer_case.h"
#include "support/small_comparison.h"

namespace duet {
namespace {

// What `work` does after an interrupt.
void expect_interrupted(const std::function<void()>& work) {
  const InterruptGuard guard;
  std::raise(SIGINT);
  EXPECT_THROW(work(), InterruptedError);
}

TEST(Interrupt, EndsLoopsWithinAPieceOfWork) {
  static std::atomic<int64_t> visits, late;
  visits = late = 0;
  const InterruptGuard guard;
  EXPECT_THROW(run_interruptibly([] {
                 parallel_for(1 << 20, int64_t{1} << 30, [](int64_t) {
                   if (InterruptGuard::requested()) ++late;
                   if (++visits == 10) std::raise(SIGINT);
                 });
               }),
               InterruptedError);
  EXPECT_GE(visits, 10);
  EXPECT_LE(late, cpu_threads());  // those that were just beginning
  bool begun = false;
  EXPECT_THROW(run_interruptibly([&] { begun = true; }), InterruptedError);
  EXPECT_FALSE(begun);
}

TEST(Interrupt, EndsATimedBlockAfterTheCall) {
  const InterruptGuard guard;
  int calls = 0;
  const auto work = [&] {
    if (++calls == 3) std::raise(SIGINT);
  };
  EXPECT_THROW(seconds_of(test_context(Device::kCpu), work, 1000), InterruptedError);
  EXPECT_EQ(calls, 3);
}

TEST(Interrupt, EndsWhateverMeasuresALayer) {
  const LayerCase c{.keys = {{"out_features", "4"}}, .x = {{{8, 12}}}};
  const auto layer = make_layer("linear", c);
  Context& context = test_context(Device::kCpu);
  const CheckData check_data =
      make_check_data(*layer, random_data(*layer, 1), {}, {Pass::kForward});
  const std::vector<Candidate> candidates = {{layer.get(), "cpu_reference"}};
  expect_interrupted([&] { measure_ceilings(context); });
  expect_interrupted([&] { check(*layer, "cpu_blas", Pass::kForward, check_data, context); });
  expect_interrupted([&] { measure_pass(candidates, Pass::kForward, check_data, context, {}); });
  expect_interrupted([&] { AutoTrial(*layer, {Pass::kForward}, {}, context); });
  AutoTrial trial(*layer, {Pass::kForward}, {}, context);
  std::vector<AutoCandidate> found = {{.id = "cpu_blas"}, {.id = "cpu_reference"}};
  expect_interrupted([&] { trial.run({Pass::kForward}, found); });
  for (const AutoCandidate& candidate : found) EXPECT_EQ(candidate.fault, "");
  // After the examination, while it is timed.
  int rounds = 0;
  const PassPlan plan = {.before_round = [&] {
    if (++rounds == 3) std::raise(SIGINT);
  }};
  const InterruptGuard guard;
  EXPECT_THROW(measure_pass(candidates, Pass::kForward, check_data, context, plan),
               InterruptedError);
}

// What a block's reference computes before its passes is most of the work where those are stopped.
TEST(Interrupt, EndsWhatSettlesTheDataOfABlock) {
  const LayerCase c{.keys = {{"out_channels", "96"}, {"kernel", "3"}, {"pool_kernel", "2"}},
                    .x = {{{16, 64, 34, 34}}}};
  const auto layer = make_layer("conv2d_pool_relu", c);
  const auto processor_seconds = [](auto&& work) {
    const std::clock_t start = std::clock();
    work();
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  };
  LayerData data = random_data(*layer, 1);
  const double whole = processor_seconds([&] { layer->settle(data.x, data.w, data.dy); });
  const double stopped = processor_seconds([&] {
    EXPECT_THROW(make_check_data(*layer, data, {}, {Pass::kForward}, [] { return true; }),
                 InterruptedError);
  });
  EXPECT_LT(stopped, whole / 2);
}

TEST(Interrupt, EndsWhateverComparesArms) {
  SmallComparison comparison({"cpu_blas", "cpu_reference"});
  const TimingPlan plan = {.block_seconds = 1e-4, .rounds = 2, .most_rounds = 2};
  expect_interrupted([&] { measure_in_network(comparison.running, plan); });
  StepTimer timer(comparison.arms, comparison.dataset, plan);
  expect_interrupted([&] { timer.at(16); });
  const StepTimes& steps = timer.at(16);
  expect_interrupted([&] {
    compare_training(comparison.arms, comparison.dataset, steps, {.steps = 3, .seeds = 1});
  });
  expect_interrupted([&] {
    compare_training(comparison.arms, comparison.dataset, steps, {.steps = 0, .seeds = 1});
  });
}

}  // namespace
}  // namespace duet
