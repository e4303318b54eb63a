// A network whose convolutions hand moments on learns as one whose layers run one by one.
#include <gtest/gtest.h>

#include "device/gpu.h"
#include "support/gpu_test.h"
#include "support/network.h"
#include "train/step/training.h"

namespace duet {
namespace {

constexpr const char* kNetwork = R"(
backend: custom
data: {dataset: synthetic_images, channels: 3, size: 32, classes: 10, train_count: 256, batch: 64}
optimizer: {type: sgd, learning_rate: 0.02}
layers:
  - {name: conv1, type: conv2d, out_channels: 64, kernel: 3, padding: 1, bias: false}
  - {name: bn1, type: batch_norm2d}
  - {type: relu}
  - {name: conv2, type: conv2d, out_channels: 64, kernel: 3, padding: 1, BY custom_wgmma_halo}}
  - {name: bn2, type: batch_norm2d}
  - {type: relu}
  - {type: max_pool2d, kernel: 2}
  - {name: conv3, type: conv2d, out_channels: 128, kernel: 3, padding: 1, stride: 2, BY custom_wgmma}}
  - {name: bn3, type: batch_norm2d}
  - {type: global_avg_pool2d}
  - {type: flatten}
  - {name: fc, type: linear, out_features: 10}
  - {type: softmax_cross_entropy}
)";

class NetMomentsOnGpu : public GpuTest {};

TEST_F(NetMomentsOnGpu, LearnAsWithout) {
  if (gpu::compute_capability() < 90)
    GTEST_SKIP() << "needs a GPU of compute capability 9.0 or higher";
  for (const std::string layout : {"nchw", "nhwc"}) {
    for (const std::string math : {"tf32", "bf16"}) {
      std::string yaml = "layout: " + layout + "\nmath: " + math + kNetwork;
      for (size_t at; (at = yaml.find("BY")) != std::string::npos;) {
        yaml.replace(at, 2, "backend: {forward:");
      }
      TestTraining with(yaml), without("fuse: false\n" + yaml);
      int handed = 0;
      for (const Net::Call& call : with.training->net().calls()) {
        handed += bool(call.step->ports.x_moments);
      }
      // In nchw bn3 has few values, in nhwc conv1 has no moments.
      EXPECT_GE(handed, math == "bf16" ? 2 : 1) << layout << " " << math;
      for (const Net::Call& call : without.training->net().calls()) {
        EXPECT_EQ(call.step->handed, "");
      }
      for (int i = 0; i < 8; ++i) {
        with.training->step();
        without.training->step();
        const double expected = without.training->state().last_loss;
        EXPECT_NEAR(with.training->state().last_loss, expected,
                    (math == "bf16" ? 2e-2 : 2e-3) * expected)
            << i << " " << layout << " " << math;
      }
    }
  }
}

}  // namespace
}  // namespace duet
