// Which passes of a network share staged tensors, by doubles that write and read numbers there.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "layers/conv2d/conv2d.h"
#include "layers/staged_tensors.h"
#include "support/double_base.h"
#include "support/network.h"

namespace duet {
namespace {

std::map<Pass, int> shared;  // runs since the last reset

constexpr StagedBytes kAllStaged{.x = 700, .dy = 300, .w = 64};

class SharingConv2d : public DoubleBase, public SharesStaged {
 public:
  SharingConv2d(std::unique_ptr<Implementation> sound, int number, bool has_w)
      : DoubleBase(std::move(sound)), number_(number), has_w_(has_w) {}

  void run(Pass pass, const Run& run, const LayerTensors& t) override { sound_->run(pass, run, t); }
  StagedBytes staged_bytes(Pass pass) const override {
    StagedBytes bytes = kAllStaged;
    if (pass == Pass::kForward) bytes.dy = 0;
    if (pass == Pass::kBackwardFilter) bytes.w = 0;
    if (pass == Pass::kBackwardData) bytes.x = 0, bytes.w = has_w_ ? bytes.w : 0;
    return bytes;
  }
  void run_sharing(Pass pass, const Run& run, const LayerTensors& t, const StagedTensors& staged,
                   const ChannelMoments& moments) override {
    EXPECT_EQ(moments.parts, 0);
    sound_->run(pass, run, t);
    ++shared[pass];
    // Layers of several numbers, and x, dy and w, are told from each other.
    if (pass == Pass::kForward) leave(staged.x, 1), leave(staged.w, 2);
    if (pass == Pass::kBackwardFilter) take(staged.x, 1), leave(staged.dy, 3);
    if (pass == Pass::kBackwardData) take(staged.dy, 3), take(staged.w, 2);
  }

 private:
  char value(int kind) const { return static_cast<char>(number_ * 10 + kind); }
  void leave(const Tensor& to, int kind) const {
    std::fill_n(to.data<char>(), to ? to.bytes() : 0, value(kind));
  }
  void take(const Tensor& from, int kind) const {
    const char* const begin = from.data<char>();
    const size_t bytes = from ? from.bytes() : 0;
    EXPECT_TRUE(std::all_of(begin, begin + bytes, [&](char c) { return c == value(kind); }))
        << number_ << " " << kind;
  }

  const int number_;
  const bool has_w_;
};

template <int number, bool has_w = true>
ImplEntry<Conv2dProblem> sharing(const char* name) {
  return {double_id(Device::kCpu, name), supports_all,
          [](const Conv2dProblem& problem, Context& context) -> std::unique_ptr<Implementation> {
            return std::make_unique<SharingConv2d>(
                make_sound(conv2d_impls(), "cpu_reference", problem, context), number, has_w);
          }};
}

class NetStaged : public testing::Test {
 protected:
  void make(const std::string& by, const std::string& keys = "",
            NetMode mode = NetMode::kTraining) {
    shared.clear();
    net_.reset();
    network_ = make_network(
        "backend: cpu_reference\n" + keys +
            "data: {dataset: synthetic_images, batch: 2}\n"
            "layers:\n"
            "  - {name: conv1, type: conv2d, out_channels: 3, kernel: 3, backend: cpu_double_one}\n"
            "  - {name: conv2, type: conv2d, out_channels: 3, kernel: 3, backend: " +
            by +
            "}\n"
            "  - {name: flatten, type: flatten}\n"
            "  - {name: fc, type: linear, out_features: 4}\n"
            "  - {name: loss, type: softmax_cross_entropy}\n",
        {{2, 1, 9, 8}}, 4);
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
  /// Of conv2's passes, as tables have them.
  std::vector<std::string> details() const {
    std::vector<std::string> all;
    for (const Net::Node::Step& step : node("conv2").steps) {
      all.push_back(node("conv2").detail(step));
    }
    return all;
  }
  void run() {
    net_->forward(&step_);
    net_->backward(&step_);
  }

  const InList<Conv2dProblem> convolutions_{
      conv2d_impls(),
      {sharing<1>("one"), sharing<2>("two"), sharing<2>("other"), sharing<2, false>("turns")}};
  uint64_t step_ = 0;
  Context context_{Device::kCpu};
  TestNetwork network_;
  std::unique_ptr<Weights> weights_;
  std::unique_ptr<Net> net_;
};

using Details = std::vector<std::string>;

TEST_F(NetStaged, GoFromPassToPass) {
  make("cpu_double_two");
  run();
  EXPECT_EQ(details(),
            (Details{"x to backward_filter, w to backward_data", "dy to backward_data", ""}));
  // conv1 has no backward_data.
  EXPECT_EQ(node("conv1").detail(node("conv1").steps[0]), "x to backward_filter");
  EXPECT_FALSE(node("conv1").staged.dy || node("conv1").staged.w);
  EXPECT_EQ(node("conv2").staged.x.bytes(), kAllStaged.x);
  EXPECT_EQ(node("conv2").staged.dy.bytes(), kAllStaged.dy);
  EXPECT_EQ(node("conv2").staged.w.bytes(), kAllStaged.w);
  EXPECT_EQ(shared,
            (std::map<Pass, int>{
                {Pass::kForward, 2}, {Pass::kBackwardFilter, 2}, {Pass::kBackwardData, 1}}));
  // Nothing is left in evaluation.
  net_->infer();
  EXPECT_EQ(shared[Pass::kForward], 2);
}

TEST_F(NetStaged, GoFromImplementationToImplementation) {
  make(
      "{forward: cpu_double_two, backward_filter: cpu_double_other, backward_data: "
      "cpu_double_two}");
  run();
  EXPECT_EQ(details(),
            (Details{"x to backward_filter, w to backward_data", "dy to backward_data", ""}));
  make(
      "{forward: cpu_double_two, backward_filter: cpu_double_other, "
      "backward_data: cpu_double_turns}");
  run();
  EXPECT_EQ(details(), (Details{"x to backward_filter", "dy to backward_data", ""}));
  make("{forward: cpu_double_two, backward_filter: cpu_reference, backward_data: cpu_double_two}");
  run();
  EXPECT_EQ(details(), (Details{"w to backward_data", "", ""}));
}

TEST_F(NetStaged, AreNobodysElsewhere) {
  make("cpu_double_two", "fuse: false\n");
  run();
  EXPECT_EQ(details(), (Details{"", "", ""}));
  make("{forward: cpu_reference, backward_filter: cpu_double_two, backward_data: cpu_reference}");
  run();
  EXPECT_EQ(details(), (Details{"", "", ""}));
  EXPECT_EQ(shared[Pass::kBackwardFilter], 1) << "conv1's";
  make("cpu_double_two", "", NetMode::kInference);
  net_->infer();
  EXPECT_TRUE(shared.empty());
}

}  // namespace
}  // namespace duet
