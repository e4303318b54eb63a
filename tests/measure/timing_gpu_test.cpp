// The verdicts again, with real kernels and the GPU's own noise.
#include <gtest/gtest.h>

#include "device/step_graph.h"
#include "measure/time/timing.h"
#include "support/case_rig.h"
#include "support/gpu_test.h"

namespace duet {
namespace {

class TimingOnGpu : public GpuTest {};

// Blocks shorter than --quick's, so that 200 comparisons take seconds; longer ones are calmer.
constexpr TimingPlan kShort = {.block_seconds = 2e-3, .rounds = 7, .most_rounds = 14};

// How often `calls_a` calls beside `calls_b` calls of one kernel, on buffers of their own, come out
// as `verdict`, of 100.
int count(Verdict verdict, int calls_a, int calls_b) {
  const LayerCase c{.name = "timing", .keys = {{"out_features", "256"}}, .x = {{{64, 1024}}}};
  const auto layer = make_layer("linear", c);
  const LayerData data = random_data(*layer, 1);
  CaseRig a(*layer, c, "custom_register_tiled", data, {Pass::kForward});
  CaseRig b(*layer, c, "custom_register_tiled", data, {Pass::kForward});
  Context& context = a.context();
  const auto graph_of = [&](CaseRig& rig, int calls) {
    rig.run(Pass::kForward);
    return StepGraph(context, [&rig, calls] {
      for (int i = 0; i < calls; ++i) rig.queue(Pass::kForward);
    });
  };
  StepGraph graph_a = graph_of(a, calls_a), graph_b = graph_of(b, calls_b);
  const auto workload = [&](StepGraph& graph) {
    return Workload{[&](int64_t calls) {
      return seconds_of(
          context, [&] { graph.launch(); }, calls);
    }};
  };
  int found = 0;
  for (int i = 0; i < 100; ++i) {
    const auto times = time_interleaved({workload(graph_a), workload(graph_b)}, kShort);
    found += speedup(times[0].seconds, times[1].seconds).verdict == verdict;
  }
  ::testing::Test::RecordProperty("of_100", found);
  std::printf("%d of 100 %s\n", found, std::string(to_string(verdict)).c_str());
  return found;
}

TEST_F(TimingOnGpu, IdenticalArmsAreTheSame) { EXPECT_GE(count(Verdict::kSame, 40, 40), 95); }
TEST_F(TimingOnGpu, FivePerCentAreFound) { EXPECT_GE(count(Verdict::kSlower, 42, 40), 95); }

}  // namespace
}  // namespace duet
