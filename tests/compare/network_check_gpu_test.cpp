// Layers in the running network on a GPU: nothing is found in sound ones, and what layers
// share is.
#include "compare/measure/network_check.h"

#include <gtest/gtest.h>

#include "compare/measure/step_times.h"
#include "support/gpu_test.h"
#include "support/network_doubles.h"
#include "support/temporary_folder.h"
#include "test_paths.h"

namespace duet {
namespace {

class NetworkOnGpu : public GpuTest {
 protected:
  static std::string text_of(const std::vector<NetworkFault>& faults) {
    std::string text;
    for (const NetworkFault& fault : faults) {
      text += fault.layer + " " + fault.pass + ": " + fault.fault.text + "\n";
    }
    return text;
  }
  static constexpr const char* kSmall[] = {"data.dataset=synthetic_images",
                                           "data.train_count=1024"};
};

TEST_F(NetworkOnGpu, FindsNothingInSoundNetworks) {
  for (const char* config : {"fashion_mnist_cnn", "lenet5_fashion", "leaky_relu_mlp_fashion"}) {
    const auto arms =
        read_arms({.config = DUET_SOURCE_DIR "/configs/" + std::string(config) + ".yaml",
                   .requests = {"custom", "cudnn"},
                   .assignments = {kSmall[0], kSmall[1]}});
    const Dataset dataset = arms[0].setup().dataset.load({});
    for (const Arm& arm : arms) {
      for (int64_t batch : {1, 64, 512}) {
        RunningArm running(arm, dataset, batch);
        for (int i = 0; i < 20; ++i) running.training().step();
        EXPECT_EQ(text_of(check_network(running)), "") << config << " " << arm.name << " " << batch;
      }
    }
  }
}

TEST_F(NetworkOnGpu, TimedStepsOfSoundArmsAreRepeatable) {
  const auto arms = read_arms({.config = DUET_SOURCE_DIR "/configs/fashion_mnist_cnn.yaml",
                               .requests = {"custom", "cudnn"},
                               .assignments = {kSmall[0], kSmall[1]}});
  const Dataset dataset = arms[0].setup().dataset.load({});
  Context context(Device::kGpu);
  StepTimer timer(arms, dataset, TimingPlan::quick(), measure_ceilings(context));
  for (int64_t batch : {1, 64}) {
    const StepTimes& steps = timer.at(batch);
    for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(steps.has(i)) << steps.fault_text(i);
  }
}

TEST_F(NetworkOnGpu, NamesTheLayerThatIsWrong) {
  const NetworkDoubles doubles(Device::kGpu);
  const TemporaryFolder folder;
  const std::string path = (folder / "two.yaml").string();
  for (const auto& [name, layer, pass] : {std::tuple("shared_state", "fc0", "backward_filter"),
                                          std::tuple("shared_workspace", "fc0", "backward_filter"),
                                          std::tuple("writes_elsewhere", "fc1", "forward"),
                                          std::tuple("wrong_above", "fc0", "forward"),
                                          std::tuple("wrong_in_evaluation", "fc0", "forward")}) {
    const std::string id = double_id(Device::kGpu, name);
    folder.write("two.yaml",
                 "name: two\nbackend: custom\n"
                 "data: {dataset: synthetic_images, batch: 64, size: 8, classes: 4, "
                 "train_count: 64, validation_count: 64}\n"
                 "optimizer: {type: sgd, learning_rate: 0.01}\nlayers:\n"
                 "  - {name: flatten, type: flatten}\n"
                 "  - {name: fc0, type: linear, out_features: 24, backend: " +
                     id +
                     "}\n"
                     "  - {name: relu, type: relu}\n"
                     "  - {name: fc1, type: linear, out_features: 4, backend: " +
                     id +
                     "}\n"
                     "  - {name: loss, type: softmax_cross_entropy}\n");
    const auto arms = read_arms({.config = path, .requests = {path}});
    const Dataset dataset = arms[0].setup().dataset.load({});
    RunningArm running(arms[0], dataset);
    const auto faults = check_network(running);
    ASSERT_FALSE(faults.empty()) << name;
    const bool named = std::any_of(faults.begin(), faults.end(), [&](const NetworkFault& fault) {
      return fault.layer == layer && fault.pass == pass;
    });
    EXPECT_TRUE(named) << name << "\n" << text_of(faults);
  }
}

}  // namespace
}  // namespace duet
