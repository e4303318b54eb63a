// Trainings of which layers are frozen.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "support/network.h"
#include "support/text.h"
#include "support/training_cases.h"

namespace duet {
namespace {

TEST(FrozenTraining, WhatIsFrozenStaysToTheBit) {
  for (const auto network : {frozen_training, frozen_averaged_training, frozen_behind_training}) {
    TestTraining t(network("cpu"));
    const Weights& weights = t.training->weights();
    std::map<std::string, std::vector<float>> before;
    for (const Parameter& parameter : weights.parameters()) {
      before[parameter.name] = weights.read(parameter);
    }
    for (int i = 0; i < 3; ++i) t.training->step();
    EXPECT_TRUE(std::isfinite(t.training->state().last_loss));
    for (const Parameter& parameter : weights.parameters()) {
      const bool behind = network == frozen_behind_training;
      const bool frozen =
          parameter.name.starts_with("block.") ||
          (behind ? parameter.name.starts_with("bn2.")
                  : parameter.name.starts_with("conv1.") || parameter.name.starts_with("bn1.") ||
                        parameter.name.starts_with("again."));
      EXPECT_EQ(weights.read(parameter) == before[parameter.name], frozen) << parameter.name;
      EXPECT_EQ(parameter.spec.trained(),
                !frozen && parameter.name.find("running") == std::string::npos)
          << parameter.name;
    }
    // No memory of the optimizer is theirs.
    for (const auto& [name, tensor] : t.training->optimizer_states()) {
      EXPECT_EQ(tensor.bytes(), weights.trained().bytes()) << name;
    }
  }
}

TEST(FrozenTraining, IsResumedToTheSameBits) {
  check_resume("cpu", "cpu", frozen_training);
  check_resume("cpu", "cpu", frozen_averaged_training);
}

// All that can learn stands before a frozen layer.
TEST(FrozenTraining, LearnsThroughFrozenLayers) {
  const std::string head = "type: linear, out_features: 10";
  TestTraining t(changed(small_training("cpu"), {{head, head + ", frozen: true"}}));
  const double first = t.training->evaluate().loss;
  for (int64_t i = 0; i < 6 * t.training->steps_per_epoch(); ++i) t.training->step();
  EXPECT_LT(t.training->evaluate().loss, 0.9 * first);
}

}  // namespace
}  // namespace duet
