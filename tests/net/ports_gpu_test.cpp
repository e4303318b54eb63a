// A network whose convolutions share what they stage learns, to the bit, as one whose passes stage their own.
#include <gtest/gtest.h>

#include "support/gpu_test.h"
#include "support/gradients_aside.h"
#include "support/network.h"
#include "support/training_cases.h"

namespace duet {
namespace {

constexpr const char* kConvolutions = R"(
backend: custom
math: bf16
data: {dataset: synthetic_images, channels: 3, size: 32, classes: 10, train_count: 256, batch: 64}
optimizer: {type: sgd, learning_rate: 0.02}
layers:
  - {name: conv1, type: conv2d, out_channels: 64, kernel: 3, padding: 1, stride: 2}
  - {type: tanh}
  - name: conv2
    type: conv2d
    out_channels: 64
    kernel: 3
    padding: 1
    backend: {forward: custom_wgmma_halo, backward_filter: custom_wgmma, backward_data: custom_wgmma_halo}
  - {type: tanh}
  - {name: conv3, type: conv2d, out_channels: 136, kernel: 3, padding: 1, stride: 2, bias: false, backend: custom_wgmma}
  - {name: tanh3, type: tanh}
  - name: conv4
    type: conv2d
    out_channels: 136
    kernel: 3
    padding: 1
    backend: {forward: custom_wgmma, backward_filter: custom_wgmma_halo, backward_data: custom_wgmma}
  - {name: sum, type: add, inputs: [tanh3, conv4]}
  - {type: global_avg_pool2d}
  - {type: flatten}
  - {name: fc, type: linear, out_features: 10}
  - {type: softmax_cross_entropy}
)";

class NetPortsOnGpu : public HopperTest {};

TEST_F(NetPortsOnGpu, LearnsTheSame) {
  for (const std::string layout : {"layout: nchw", "layout: nhwc"}) {
    TestTraining shared(layout + kConvolutions), eager("graph: false\n" + layout + kConvolutions),
        plain("fuse: false\n" + layout + kConvolutions);
    int images = 0, weights = 0;
    for (const Net::Call& call : shared.training->net().calls()) {
      const Ports& ports = call.step->ports;
      images += call.step->pass == Pass::kBackwardFilter && ports.staged_x && ports.staged_dy;
      weights += call.step->pass == Pass::kForward && ports.staged_w;
    }
    EXPECT_EQ(images, layout == "layout: nchw" ? 3 : 0);
    EXPECT_GE(weights, 2) << layout;
    for (const Net::Call& call : plain.training->net().calls()) {
      EXPECT_TRUE(call.step->handed.empty()) << call.step->label;
    }
    EXPECT_EQ(snapshot(shared), snapshot(plain)) << layout;
    for (int i = 0; i < 8; ++i) {
      for (TestTraining* t : {&shared, &eager, &plain}) t->training->step();
      EXPECT_EQ(snapshot(shared), snapshot(plain)) << layout << ", step " << i;
      EXPECT_EQ(snapshot(eager), snapshot(plain)) << layout << ", eager, step " << i;
      if (HasFailure()) return;
    }
    EXPECT_EQ(shared.training->evaluate().loss, plain.training->evaluate().loss);
  }
}

// backward_filter is held back until all else has been queued.
TEST_F(NetPortsOnGpu, NothingOverwritesWhatIsReadAside) {
  TestTraining t(std::string("graph: false") + kConvolutions);
  t.training->step();
  check_gradients_aside(t, "");
}

}  // namespace
}  // namespace duet
