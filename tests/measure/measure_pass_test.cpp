#include "measure/time/measure_pass.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "support/case_rig.h"
#include "support/layer_case.h"

namespace duet {
namespace {

TEST(MeasurePass, CanBeEndedBeforeEveryCandidateAndRound) {
  const LayerCase c{.keys = {{"out_features", "4"}}, .x = {{{8, 12}}}};
  const auto layer = make_layer("linear", c);
  const CheckData check_data =
      make_check_data(*layer, random_data(*layer, 1), {}, {Pass::kForward});
  const std::vector<Candidate> candidates = {{layer.get(), "cpu_blas"},
                                             {layer.get(), "cpu_reference"}};
  int rounds = 0;
  PassPlan plan = {.timing = {.block_seconds = 1e-3, .rounds = 3, .most_rounds = 3},
                   .before_round = [&] { ++rounds; }};
  const auto measured =
      measure_pass(candidates, Pass::kForward, check_data, test_context(Device::kCpu), plan);
  EXPECT_EQ(rounds, 2 + 4);  // candidates, then rounds, of which one warms up
  for (const PassMeasurement& each : measured) EXPECT_EQ(each.warm->seconds.size(), 3u);

  for (int last : {2, 5}) {
    rounds = 0;
    plan.before_round = [&] {
      if (++rounds == last) throw InterruptedError();
    };
    EXPECT_THROW(
        measure_pass(candidates, Pass::kForward, check_data, test_context(Device::kCpu), plan),
        InterruptedError);
    EXPECT_EQ(rounds, last);
  }
}

TEST(MeasurePass, ALongCallThatTakesNotAllTurnsHasNoFault) {
  const LayerCase c{.keys = {{"out_features", "4"}}, .x = {{{8, 12}}}};
  const auto layer = make_layer("linear", c);
  const CheckData check_data =
      make_check_data(*layer, random_data(*layer, 1), {}, {Pass::kForward});
  const PassPlan plan = {.timing = {.block_seconds = 1e-9, .rounds = 2, .most_rounds = 2}};
  const auto measured = measure_pass({{layer.get(), "cpu_reference"}}, Pass::kForward, check_data,
                                     test_context(Device::kCpu), plan);
  EXPECT_TRUE(measured[0].examination.passed());
  ASSERT_TRUE(measured[0].warm);
  EXPECT_EQ(measured[0].warm->calls, 1);  // a block; there are four sets of buffers
}

// Of agreement alone: on the first data, without thousands of calls; and timed all the same.
TEST(MeasurePass, ExaminesEachCandidateAsThoroughlyAsItSays) {
  const LayerCase c{.keys = {{"out_features", "4"}}, .x = {{{8, 12}}}};
  const auto layer = make_layer("linear", c);
  const CheckData first =
      make_first_check_data(*layer, random_data(*layer, 1), {}, {Pass::kForward});
  EXPECT_TRUE(first.other_expected.outputs.empty());
  const PassPlan plan = {.timing = {.block_seconds = 1e-4, .rounds = 2, .most_rounds = 2},
                         .anew = false};
  const auto brief = measure_pass({{layer.get(), "cpu_reference", CheckLevel::kAgreement}},
                                  Pass::kForward, first, test_context(Device::kCpu), plan);
  EXPECT_TRUE(brief[0].examination.passed());
  EXPECT_FALSE(brief[0].examination.tensors.empty());
  EXPECT_EQ(brief[0].examination.replayed, 0);
  EXPECT_TRUE(brief[0].warm);
  const CheckData whole = make_check_data(*layer, random_data(*layer, 1), {}, {Pass::kForward});
  const auto thorough = measure_pass({{layer.get(), "cpu_reference"}}, Pass::kForward, whole,
                                     test_context(Device::kCpu), plan);
  EXPECT_GT(thorough[0].examination.replayed, 0);
}

}  // namespace
}  // namespace duet
