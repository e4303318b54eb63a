// Gradients and updates in one kernel: to the bits of an update of its own, and only where it may be.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/gpu_test.h"
#include "support/network.h"
#include "support/text.h"
#include "support/training_cases.h"

namespace duet {
namespace {

class FusedUpdate : public HopperTest {};

constexpr const char* kOptimizers[] = {
    "type: sgd, learning_rate: 0.05",
    "type: sgd, learning_rate: 0.05, momentum: 0.9, nesterov: true, weight_decay: 0.01",
    "type: adam, learning_rate: 0.003, weight_decay: 0.01",
    "type: adamw, learning_rate: 0.003, decay_biases: false",
    // Quotients at the end of float's range.
    "type: adam, learning_rate: 1.0e-30, epsilon: 1.0e-30"};

// The first weight has no dx to wait for, the second is a block's, the third a layer's by itself, and the last is small.
std::string wide_training(const std::string& optimizer, const std::string& head,
                          const std::string& backend = "custom") {
  const std::string fuse = has(head, "fuse_update") ? "" : "fuse_update: true\n";
  return head + fuse + "backend: custom\noptimizer: {" + optimizer + R"(}
data: {dataset: synthetic_images, batch: 100, size: 16, classes: 4, train_count: 1000, validation_count: 250}
layers:
  - {type: flatten}
  - {name: fc1, type: linear, out_features: 520, backend: )" +
         backend + R"(}
  - {type: relu}
  - {name: fc2, type: linear, out_features: 264, backend: )" +
         backend + R"(}
  - {type: relu}
  - {name: fc3, type: linear, out_features: 264, bias: false, backend: )" +
         backend + R"(}
  - {type: tanh}
  - {name: fc4, type: linear, out_features: 10}
  - {type: softmax_cross_entropy}
)";
}

int64_t updated(TestTraining& t) {
  const std::vector<Net::Node>& nodes = t.training->net().nodes();
  return std::count_if(nodes.begin(), nodes.end(),
                       [](const Net::Node& node) { return !node.updated.empty(); });
}

void expect_the_same(const std::string& optimizer, const std::string& head,
                     const std::string& backend) {
  TestTraining fused(wide_training(optimizer, head, backend)),
      eager(wide_training(optimizer, head + "graph: false\n", backend)),
      plain(wide_training(optimizer, head + "fuse_update: false\n", backend));
  const std::string what = head + backend + " " + optimizer;
  EXPECT_EQ(updated(fused), 3) << what;
  EXPECT_EQ(updated(plain), 0) << what;
  EXPECT_EQ(snapshot(fused), snapshot(plain)) << what << ": preparing is no step";
  for (const int count : {1, 11, 8}) {
    for (TestTraining* t : {&fused, &eager, &plain}) t->training->step(count);
    EXPECT_EQ(snapshot(fused), snapshot(plain)) << what;
    EXPECT_EQ(snapshot(eager), snapshot(plain)) << what << ", eager";
  }
  EXPECT_EQ(fused.training->evaluate().loss, plain.training->evaluate().loss) << what;
}

TEST_F(FusedUpdate, GivesTheBitsOfAnUpdateOfItsOwn) {
  for (const char* optimizer : kOptimizers) {
    expect_the_same(optimizer, "", "custom_register_tiled");
    expect_the_same(optimizer, "math: bf16\n", "custom_wgmma");
  }
}

TEST_F(FusedUpdate, IsThereInEveryMath) {
  const std::string adam = kOptimizers[2];
  expect_the_same(adam, "", "custom_wgmma_3xtf32");
  expect_the_same(adam, "fuse: false\n", "custom_register_tiled");
  expect_the_same(adam, "math: tf32\n", "custom_mma");
  expect_the_same(adam, "math: tf32\n", "custom_wgmma");
  expect_the_same(adam, "math: bf16\nfuse: false\n", "custom_wgmma");
}

TEST_F(FusedUpdate, IsOnlyWhereAWeightNeedsNothingButItsGradient) {
  for (const std::string optimizer :
       {"type: adam, clip_norm: 1", "type: adam, ema: 0.9", "type: muon", "type: rmsprop"}) {
    TestTraining t(wide_training(optimizer, "math: bf16\n"));
    EXPECT_EQ(updated(t), 0) << optimizer;
  }
  TestTraining library(wide_training("type: adam", "", "cudnn_cublas"));
  EXPECT_EQ(updated(library), 0);
}

TEST_F(FusedUpdate, LeavesAllAsItIsBehindABadLoss) {
  for (const std::string head : {"", "math: bf16\n", "graph: false\n"}) {
    TestTraining t(wide_training(kOptimizers[2], head));
    Training& training = *t.training;
    training.step(3);
    const Parameter& spoilt = training.weights().parameters().back();  // fc4's bias
    std::vector<float> values = training.weights().read(spoilt);
    values[1] = NAN;
    training.weights().write(spoilt, values);
    const auto all = [&] {
      std::vector<std::vector<float>> of_all;
      for (const Parameter& parameter : training.weights().parameters()) {
        if (parameter.name != spoilt.name) of_all.push_back(training.weights().read(parameter));
        for (const auto& [name, state] : training.optimizer_states()) {
          of_all.push_back(training.weights().read(parameter, state));
        }
      }
      return of_all;
    };
    const auto before = all();
    training.step(9);
    EXPECT_EQ(training.state().halted, 1);
    EXPECT_EQ(all(), before) << head;
  }
}

TEST_F(FusedUpdate, IsShownAndLeavesGradientsToWhoAsks) {
  TestTraining fused(wide_training(kOptimizers[2], "")),
      plain(wide_training(kOptimizers[2], "fuse_update: false\n"));
  std::vector<std::string> names;
  for (const Operation& operation : fused.training->program()) {
    if (operation.implementation.ends_with(" + adam")) names.push_back(operation.name());
  }
  ASSERT_EQ(names.size(), 3u);
  EXPECT_TRUE(names.back().starts_with("fc1") && names.back().ends_with(" backward_filter"));
  const auto gradients = [](TestTraining& t) {
    for (const Operation& operation : t.training->passes()) operation.queue();
    t.context.synchronize();
    const Tensor all = t.training->net().gradients();
    return download(all.memory, Device::kGpu, all.bytes());
  };
  const auto before = snapshot(fused);
  EXPECT_EQ(gradients(fused), gradients(plain));
  EXPECT_EQ(snapshot(fused), before);
}

}  // namespace
}  // namespace duet
