// Layers in the running network, at every batch, in training and in evaluation mode.
#include "compare/measure/network_check.h"

#include <gtest/gtest.h>

#include "compare/measure/step_times.h"
#include "support/network_doubles.h"
#include "support/small_comparison.h"
#include "support/text.h"

namespace duet {
namespace {

/// The small network with a second linear layer, each by `id` or whatever is the device's.
Arm arm_with(const ComparisonFolder& folder, const std::string& id) {
  const std::string backend = is_double(id) ? ", backend: " + id : "";
  folder.write("two.yaml",
               {{"backend: cpu", "backend: " + (backend.empty() ? id : id.substr(0, id.find('_')))},
                {"  - {name: fc1, type: linear, out_features: 4}",
                 "  - {name: fc0, type: linear, out_features: 24" + backend +
                     "}\n  - {name: drop, type: dropout, p: 0.25}\n"
                     "  - {name: fc1, type: linear, out_features: 4" +
                     backend + "}"}});
  return read_arms(folder.options({(folder / "two.yaml").string()}))[0];
}

std::vector<NetworkFault> faults_of(const std::string& id, int64_t batch) {
  const ComparisonFolder folder;
  const Arm arm = arm_with(folder, id);
  const Dataset dataset = arm.setup().dataset.load({});
  RunningArm running(arm, dataset, batch);
  return check_network(running);
}

std::string text_of(const std::vector<NetworkFault>& faults) {
  std::string text;
  for (const NetworkFault& fault : faults) {
    text += fault.layer + " " + fault.pass + ": " + fault.fault.text + "\n";
  }
  return text;
}

class NetworkCheck : public testing::Test {
 protected:
  const NetworkDoubles doubles_{Device::kCpu};
  static std::string id(const std::string& name) { return double_id(Device::kCpu, name); }
};

TEST_F(NetworkCheck, FindsNothingInSoundNetworks) {
  for (const std::string family : {"cpu_blas", "cpu_reference"}) {
    for (int64_t batch : {1, 16, 64}) {
      EXPECT_EQ(text_of(faults_of(family, batch)), "") << family << " " << batch;
    }
  }
}

// They run as in evaluation, and have a gradient of their input alone.
TEST_F(NetworkCheck, KnowsFrozenLayers) {
  const ComparisonFolder folder;
  folder.write("frozen.yaml", {{"  - {name: fc1, type: linear, out_features: 4}",
                                "  - {name: fc0, type: linear, out_features: 24}\n"
                                "  - {name: norm0, type: batch_norm1d, frozen: true}\n"
                                "  - {name: drop, type: dropout, frozen: true}\n"
                                "  - {name: fc2, type: linear, out_features: 16, frozen: true}\n"
                                "  - {name: fc1, type: linear, out_features: 4}"}});
  const Arm arm = read_arms(folder.options({(folder / "frozen.yaml").string()}))[0];
  const Dataset dataset = arm.setup().dataset.load({});
  RunningArm running(arm, dataset, 16);
  EXPECT_EQ(text_of(check_network(running)), "");
}

// Running statistics are read and written in place; the first layer's dx is nobody's.
TEST_F(NetworkCheck, KnowsBuffers) {
  const ComparisonFolder folder;
  folder.write("norm.yaml", {{"  - {name: fc1, type: linear, out_features: 4}",
                              "  - {name: norm0, type: batch_norm1d}\n"
                              "  - {name: fc0, type: linear, out_features: 24}\n"
                              "  - {name: norm1, type: batch_norm1d, affine: false}\n"
                              "  - {name: fc1, type: linear, out_features: 4}"}});
  const Arm arm = read_arms(folder.options({(folder / "norm.yaml").string()}))[0];
  const Dataset dataset = arm.setup().dataset.load({});
  RunningArm running(arm, dataset, 16);
  EXPECT_EQ(text_of(check_network(running)), "");
}

TEST_F(NetworkCheck, NamesTheLayerWhoseStateIsShared) {
  for (const std::string name : {"shared_state", "shared_workspace"}) {
    const auto faults = faults_of(id(name), 16);
    ASSERT_EQ(faults.size(), 1u) << name << "\n" << text_of(faults);
    EXPECT_EQ(faults[0].layer, "fc0");
    EXPECT_EQ(faults[0].pass, "backward_filter");
    EXPECT_EQ(faults[0].fault.kind, FaultKind::kWrongInNetwork);
    EXPECT_TRUE(has(faults[0].fault.text, "dw[0] weight"));
  }
}

TEST_F(NetworkCheck, NamesWhoWritesIntoAnotherLayer) {
  const auto faults = faults_of(id("writes_elsewhere"), 16);
  ASSERT_FALSE(faults.empty());
  EXPECT_EQ(faults[0].layer, "fc1");
  EXPECT_EQ(faults[0].pass, "forward");
  EXPECT_NE(faults[0].fault.text.find("the output of layer fc0"), std::string::npos)
      << text_of(faults);
}

TEST_F(NetworkCheck, FindsWhatIsWrongInLargeBatchesOnly) {
  EXPECT_EQ(text_of(faults_of(id("wrong_above"), kLargestRightBatch)), "");
  const auto faults = faults_of(id("wrong_above"), kLargestRightBatch + 1);
  const std::string text = text_of(faults);
  EXPECT_TRUE(has(text, "fc0 forward", "fc0 backward_filter", "fc0 backward_data", "fc1 forward",
                  "fc1 backward_filter", "fc1 backward_data", "at batch 41"));
}

TEST_F(NetworkCheck, FindsWhatIsWrongInEvaluationModeOnly) {
  const auto faults = faults_of(id("wrong_in_evaluation"), 16);
  ASSERT_EQ(faults.size(), 2u) << text_of(faults);
  for (const NetworkFault& fault : faults) {
    EXPECT_EQ(fault.pass, "forward");
    EXPECT_TRUE(has(fault.fault.text, "in evaluation mode"));
  }
}

}  // namespace
}  // namespace duet
