// Which layers of a network hand the moments of their output on, by doubles that only count.
#include <gtest/gtest.h>

#include "layers/batch_norm/batch_norm.h"
#include "layers/conv2d/conv2d.h"
#include "layers/handed_moments.h"
#include "support/double_base.h"
#include "support/network.h"

namespace duet {
namespace {

constexpr int kParts = 3;

/// What the doubles saw since the last reset.
struct Seen {
  int left = 0, taken = 0;
  ChannelMoments of_left, of_taken;
} seen;
bool wanted = true;

class LeavingConv2d : public DoubleBase, public LeavesMoments {
 public:
  LeavingConv2d(std::unique_ptr<Implementation> sound, int parts)
      : DoubleBase(std::move(sound)), parts_(parts) {}
  void run(Pass pass, const Run& run, const LayerTensors& t) override { sound_->run(pass, run, t); }
  int moment_parts() const override { return parts_; }
  void forward_with_moments(const Run& run, const LayerTensors& t,
                            const ChannelMoments& moments) override {
    sound_->run(Pass::kForward, run, t);
    ++seen.left;
    seen.of_left = moments;
    const int64_t floats = (2 * t.y[0].desc.shape[1] + 1) * kParts;
    for (int64_t i = 0; i < floats; ++i) moments.sums[i] = static_cast<float>(i);
  }

 private:
  const int parts_;
};

class TakingBatchNorm : public DoubleBase, public TakesMoments {
 public:
  using DoubleBase::DoubleBase;
  bool wants_moments() const override { return wanted; }
  void run(Pass pass, const Run& run, const LayerTensors& t) override { sound_->run(pass, run, t); }
  void forward_of_moments(const Run& run, const LayerTensors& t,
                          const ChannelMoments& moments) override {
    sound_->run(Pass::kForward, run, t);
    ++seen.taken;
    seen.of_taken = moments;
    const int64_t floats = (2 * t.x[0].desc.shape[1] + 1) * kParts;
    for (int64_t i = 0; i < floats; ++i) EXPECT_EQ(moments.sums[i], static_cast<float>(i));
  }
};

template <int parts>
ImplEntry<Conv2dProblem> leaving(const char* name) {
  return {double_id(Device::kCpu, name), supports_all,
          [](const Conv2dProblem& problem, Context& context) -> std::unique_ptr<Implementation> {
            return std::make_unique<LeavingConv2d>(
                make_sound(conv2d_impls(), "cpu_reference", problem, context), parts);
          }};
}
ImplEntry<BatchNormProblem> taking() {
  return {double_id(Device::kCpu, "takes"), supports_all,
          [](const BatchNormProblem& problem, Context& context) -> std::unique_ptr<Implementation> {
            for (const auto& entry : batch_norm_impls()) {
              if (entry.id != "cpu_reference") continue;
              return std::make_unique<TakingBatchNorm>(entry.make(problem, context));
            }
            throw std::logic_error("no cpu_reference");
          }};
}

/// Of these layers, behind conv1, which leaves moments; then an end.
class NetMoments : public testing::Test {
 protected:
  void make(const std::string& layers, NetMode mode = NetMode::kTraining,
            const std::string& keys = "", const std::string& conv1 = "cpu_double_leaves") {
    seen = {};
    net_.reset();
    network_ = make_network("backend: cpu_reference\n" + keys +
                                "data: {dataset: synthetic_images, batch: 2}\n"
                                "layers:\n"
                                "  - {name: conv1, type: conv2d, out_channels: 3, kernel: 3, "
                                "backend: " +
                                conv1 + "}\n" + layers +
                                "  - {name: flatten, type: flatten}\n"
                                "  - {name: fc, type: linear, out_features: 4}\n"
                                "  - {name: loss, type: softmax_cross_entropy}\n",
                            {{2, 1, 6, 5}}, 4);
    if (mode == NetMode::kInference) network_.layers = without_losses(network_.layers);
    weights_ = std::make_unique<Weights>(network_.layers, 7, Device::kCpu);
    net_ = std::make_unique<Net>(network_.layers, *weights_, context_, mode);
  }
  const Net::Node& node(const std::string& name) const {
    for (const Net::Node& each : net_->nodes()) {
      if (each.name == name) return each;
    }
    throw std::logic_error(name);
  }
  /// A forward pass in training, and one in evaluation.
  void run() {
    net_->forward(&step_);
    const Seen in_training = seen;
    net_->infer();
    EXPECT_EQ(seen.left, in_training.left) << "in evaluation too";
    EXPECT_EQ(seen.taken, in_training.taken) << "in evaluation too";
  }
  void expect_none() {
    run();
    EXPECT_EQ(seen.left, 0);
    EXPECT_EQ(seen.taken, 0);
    EXPECT_EQ(node("conv1").handed, "");
  }

  const InList<Conv2dProblem> convolutions_{conv2d_impls(),
                                            {leaving<kParts>("leaves"), leaving<0>("cannot")}};
  const InList<BatchNormProblem> norms_{batch_norm_impls(), {taking()}};
  uint64_t step_ = 0;
  Context context_{Device::kCpu};
  TestNetwork network_;
  std::unique_ptr<Weights> weights_;
  std::unique_ptr<Net> net_;
};

constexpr const char* kTakes = "  - {name: bn1, type: batch_norm2d, backend: cpu_double_takes}\n";

TEST_F(NetMoments, GoFromAConvolutionToTheNormalisationBehindIt) {
  make(kTakes);
  run();
  EXPECT_EQ(seen.left, 1);
  EXPECT_EQ(seen.taken, 1);
  EXPECT_EQ(seen.of_taken.parts, kParts);
  EXPECT_EQ(seen.of_taken.sums, seen.of_left.sums);
  const Net::Node& conv1 = node("conv1");
  EXPECT_EQ(conv1.detail(conv1.steps[0]), "moments to bn1");
  EXPECT_EQ(conv1.detail(conv1.steps[1]), "") << "backward";
  EXPECT_EQ(node("bn1").detail(node("bn1").steps[0]), "moments from conv1");
  // In memory of their own while they are needed.
  const auto* const begin = reinterpret_cast<const char*>(seen.of_left.sums);
  for (const char* name : {"conv1", "bn1"}) {
    for (const Tensor& t : {node(name).tensors.x[0], node(name).tensors.y[0]}) {
      const auto* const other = static_cast<const char*>(t.memory);
      EXPECT_TRUE(begin + ChannelMoments::bytes(3, kParts) <= other || other + t.bytes() <= begin);
    }
  }
}

TEST_F(NetMoments, GoThereWhoeverElseReadsTheOutput) {
  make(std::string(kTakes) + "  - {name: sum, type: add, inputs: [bn1, conv1]}\n");
  run();
  EXPECT_EQ(seen.left, 1);
  EXPECT_EQ(seen.taken, 1);
  make(
      "  - {name: bn1, type: batch_norm2d, backend: cpu_double_takes}\n"
      "  - {name: bn2, type: batch_norm2d, inputs: conv1, backend: cpu_double_takes}\n"
      "  - {name: sum, type: add, inputs: [bn1, bn2]}\n");
  run();
  EXPECT_EQ(seen.left, 1);
  EXPECT_EQ(seen.taken, 2);
}

TEST_F(NetMoments, AreNobodysWhereLayersRunOneByOne) {
  make(kTakes, NetMode::kTraining, "fuse: false\n");
  expect_none();
}
TEST_F(NetMoments, AreNobodysInInference) {
  make(kTakes, NetMode::kInference);
  net_->infer();
  EXPECT_EQ(seen.left, 0);
  EXPECT_EQ(seen.taken, 0);
}
TEST_F(NetMoments, AreNobodysWhereOneOfTheTwoHasNone) {
  make(kTakes, NetMode::kTraining, "", "cpu_double_cannot");
  expect_none();
  make(kTakes, NetMode::kTraining, "", "cpu_reference");
  expect_none();
  make("  - {name: bn1, type: batch_norm2d}\n");
  expect_none();
  wanted = false;
  make(kTakes);
  wanted = true;
  expect_none();
}
TEST_F(NetMoments, AreNobodysBehindAnotherLayerOrInAnotherShape) {
  make("  - {type: tanh}\n" + std::string(kTakes));
  expect_none();
  make(
      "  - {type: flatten, name: view}\n"
      "  - {name: bn1, type: batch_norm1d, backend: cpu_double_takes}\n");
  expect_none();
}

}  // namespace
}  // namespace duet
