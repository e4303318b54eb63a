#include "support/training_cases.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>

#include "train/checkpoint.h"

namespace duet {

std::string small_training(const std::string& backend) {
  return "backend: " + backend + R"(
data: {dataset: synthetic_images, batch: 100, size: 16, classes: 4, train_count: 1000, validation_count: 250}
optimizer: {type: adam, learning_rate: 0.005}
layers:
  - {name: conv1, type: conv2d, out_channels: 4, kernel: 3}
  - {type: max_pool2d, kernel: 2}
  - {type: relu}
  - {name: conv2, type: conv2d, out_channels: 8, kernel: 3}
  - {type: relu}
  - {type: max_pool2d, kernel: 2}
  - {type: flatten}
  - {type: dropout, p: 0.1}
  - {name: fc, type: linear, out_features: 10}
  - {type: softmax_cross_entropy}
)";
}

std::vector<double> snapshot(TestTraining& t) {
  Training& training = *t.training;
  const StepState state = training.state();
  std::vector<double> values = {static_cast<double>(state.step), state.loss_sum, state.last_loss,
                                static_cast<double>(state.hits),
                                static_cast<double>(state.counted)};
  for (const Parameter& parameter : training.net().parameters()) {
    for (float v : training.net().read(parameter, training.net().flat_parameters())) {
      values.push_back(v);
    }
    for (size_t i = 0; i < training.optimizer().state_names().size(); ++i) {
      for (float v : training.net().read(parameter, training.optimizer_state(i))) {
        values.push_back(v);
      }
    }
  }
  return values;
}

std::filesystem::path temporary_path(const std::string& name) {
  return std::filesystem::temp_directory_path() / ("duet-" + std::to_string(getpid()) + "-" + name);
}

void check_resume(const std::string& first, const std::string& second) {
  const std::filesystem::path path = temporary_path("resume.safetensors");
  const CheckpointInfo info{"small", "synthetic_images", "adam", 1, 100};
  TestTraining whole(small_training(first));
  for (int i = 0; i < 25; ++i) whole.training->step();
  {
    TestTraining before(small_training(first));
    for (int i = 0; i < 13; ++i) before.training->step();
    save_checkpoint(path, *before.training, info);
  }
  TestTraining after(small_training(second));
  load_checkpoint(path, *after.training, info);
  for (int i = 0; i < 12; ++i) after.training->step();
  EXPECT_EQ(snapshot(whole), snapshot(after)) << first << " then " << second;
  std::filesystem::remove(path);
}

void check_halt(const std::string& backend) {
  TestTraining t(small_training(backend));
  Training& training = *t.training;
  for (int i = 0; i < 3; ++i) training.step();
  const Parameter& parameter = training.net().parameters()[2];  // conv2.weight
  std::vector<float> values = training.net().read(parameter, training.net().flat_parameters());
  values[5] = NAN;
  training.net().write(parameter, training.net().flat_parameters(), values);
  for (int i = 0; i < 3; ++i) training.step();
  const StepState state = training.state();
  EXPECT_EQ(state.halted, 1);
  EXPECT_EQ(state.step, 3u);  // nothing advanced
  EXPECT_TRUE(std::isfinite(state.loss_sum));
  const Parameter& first = training.net().parameters()[0];
  for (float v : training.net().read(first, training.net().flat_parameters())) {
    ASSERT_TRUE(std::isfinite(v));  // and nothing was spoilt
  }
  EXPECT_NE(training.explain_halt().find("parameter weight of layer conv2"), std::string::npos)
      << training.explain_halt();
}

}  // namespace duet
