// `backend: auto` on the GPU: hand-written and library implementations side by side.
#include "net/auto.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/doubles.h"
#include "support/gpu_test.h"
#include "support/network.h"
#include "support/training_cases.h"
#include "train/step/training.h"

namespace duet {
namespace {

class AutoOnGpu : public GpuTest {};

const AutoCandidate& chosen(const PassChoice& choice) {
  return *std::find_if(choice.candidates.begin(), choice.candidates.end(),
                       [&](const AutoCandidate& candidate) { return candidate.id == choice.id; });
}

// The lists hold the doubles too: none may be taken, and nothing may be found in the others.
TEST_F(AutoOnGpu, TrainsLikeTheFamilies) {
  const Doubles doubles(Device::kGpu);
  for (const std::string extra : {"", "layout: nhwc\n", "fuse: false\n"}) {
    TestTraining measured(extra + small_training("auto")), custom(extra + small_training("custom"));
    for (const ResolvedLayer& layer : measured.network.layers) {
      for (const PassChoice& choice : layer.passes) {
        EXPECT_EQ(device_of(family_of(choice.id)), Device::kGpu) << layer.name;
        EXPECT_FALSE(is_double(choice.id)) << layer.name << " " << choice.id;
        for (const AutoCandidate& candidate : choice.candidates) {
          if (is_double(candidate.id)) continue;
          EXPECT_EQ(candidate.fault, "") << layer.name << " " << candidate.id;
          if (candidate.far_slower) continue;  // has no exact time
          EXPECT_GE(candidate.microseconds, chosen(choice).microseconds);
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
