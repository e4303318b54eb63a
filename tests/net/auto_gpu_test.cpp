// `backend: auto` on the GPU: hand-written and library implementations in one contest.
#include "net/auto.h"

#include <gtest/gtest.h>

#include "support/gpu_test.h"
#include "support/network.h"
#include "support/training_cases.h"
#include "train/training.h"

namespace duet {
namespace {

class AutoOnGpu : public GpuTest {};

TEST_F(AutoOnGpu, TrainsLikeTheFamilies) {
  for (const std::string extra : {"", "layout: nhwc\n", "fuse: false\n"}) {
    TestTraining measured(extra + small_training("auto")), custom(extra + small_training("custom"));
    for (const ResolvedLayer& layer : measured.network.layers) {
      for (const PassChoice& choice : layer.passes) {
        EXPECT_EQ(device_of(family_of(choice.id)), Device::kGpu) << layer.name;
        for (const AutoCandidate& candidate : choice.candidates) {
          EXPECT_EQ(candidate.fault, "") << layer.name << " " << candidate.id;
          EXPECT_GE(candidate.microseconds, choice.candidates[0].microseconds);
        }
      }
    }
    for (int i = 0; i < 10; ++i) {
      measured.training->step();
      custom.training->step();
      const double expected = custom.training->state().last_loss;
      EXPECT_NEAR(measured.training->state().last_loss, expected, 1e-4 * expected) << i << extra;
    }
  }
}

}  // namespace
}  // namespace duet
