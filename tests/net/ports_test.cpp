// Which passes of a network are connected, by doubles that write and read numbers there.
#include "net/ports.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "core/channel_moments.h"
#include "layers/batch_norm/batch_norm.h"
#include "layers/conv2d/conv2d.h"
#include "support/double_base.h"
#include "support/network.h"

namespace duet {
namespace {

using Access = PortUse::Access;

struct NamedPort {
  Port port;
  const char* name;
};
constexpr NamedPort kPorts[] = {{&Ports::x_moments, "moments of x"},
                                {&Ports::y_moments, "moments of y"},
                                {&Ports::staged_x, "x"},
                                {&Ports::staged_dy, "dy"},
                                {&Ports::staged_w, "w"}};

std::map<std::string, int> seen;               // runs with each port, since the last reset
std::map<std::string, const void*> memory_of;  // and where it was

/// Fills what it leaves with a number of its own, and expects it in what it takes.
class PortDouble : public DoubleBase {
 public:
  using Uses = std::map<Pass, std::vector<PortUse>>;
  PortDouble(std::unique_ptr<Implementation> sound, Uses uses, int number = 1)
      : DoubleBase(std::move(sound)), uses_(std::move(uses)), number_(number) {}

  std::vector<PortUse> ports(Pass pass, bool inference) const override {
    const auto found = uses_.find(pass);
    return inference || found == uses_.end() ? std::vector<PortUse>{} : found->second;
  }
  void run(Pass pass, const Run& run, const LayerTensors& t) override {
    sound_->run(pass, run, t);
    for (const NamedPort& named : kPorts) {
      const Tensor& tensor = run.ports.*named.port;
      if (!tensor) continue;
      ++seen[std::string(to_string(pass)) + " " + named.name];
      memory_of[named.name] = tensor.memory;
      auto* const bytes = static_cast<char*>(tensor.memory);
      const auto uses = ports(pass, false);
      const auto use = std::find_if(uses.begin(), uses.end(),
                                    [&](const PortUse& each) { return each.port == named.port; });
      ASSERT_NE(use, uses.end()) << named.name;
      const auto value = static_cast<char>(number_ + named.name[0]);
      if (use->access == Access::kLeaves) {
        std::fill_n(bytes, tensor.bytes(), value);
      } else {
        EXPECT_TRUE(std::all_of(bytes, bytes + tensor.bytes(), [&](char c) { return c == value; }))
            << named.name << " of " << number_;
      }
    }
  }

 private:
  const Uses uses_;
  const int number_;
};

constexpr int kParts = 3;
constexpr size_t kX = 700, kDy = 300, kW = 64;

PortUse leaves(Port port, size_t bytes) { return {port, Access::kLeaves, opaque(bytes)}; }
PortUse takes(Port port, size_t bytes) { return {port, Access::kTakes, opaque(bytes)}; }

template <int number, bool has_w = true>
ImplEntry<Conv2dProblem> staging(const char* name) {
  return {
      double_id(Device::kCpu, name), supports_all,
      [](const Conv2dProblem& problem, Context& context) -> std::unique_ptr<Implementation> {
        PortDouble::Uses uses = {
            {Pass::kForward, {leaves(&Ports::staged_x, kX), leaves(&Ports::staged_w, kW)}},
            {Pass::kBackwardFilter, {takes(&Ports::staged_x, kX), leaves(&Ports::staged_dy, kDy)}},
            {Pass::kBackwardData, {takes(&Ports::staged_dy, kDy)}}};
        if (has_w) uses[Pass::kBackwardData].push_back(takes(&Ports::staged_w, kW));
        return std::make_unique<PortDouble>(
            make_sound(conv2d_impls(), "cpu_reference", problem, context), uses, number);
      }};
}
ImplEntry<Conv2dProblem> leaving_moments() {
  return {double_id(Device::kCpu, "leaves"), supports_all,
          [](const Conv2dProblem& problem, Context& context) -> std::unique_ptr<Implementation> {
            const PortUse moments = {&Ports::y_moments, Access::kLeaves,
                                     ChannelMoments::desc(problem.k, kParts)};
            return std::make_unique<PortDouble>(
                make_sound(conv2d_impls(), "cpu_reference", problem, context),
                PortDouble::Uses{{Pass::kForward, {moments}}});
          }};
}
template <bool pays>
ImplEntry<BatchNormProblem> taking_moments(const char* name) {
  return {double_id(Device::kCpu, name), supports_all,
          [](const BatchNormProblem& problem, Context& context) -> std::unique_ptr<Implementation> {
            const PortUse moments = {&Ports::x_moments, Access::kTakes, {}, pays};
            for (const auto& entry : batch_norm_impls()) {
              if (entry.id != "cpu_reference") continue;
              return std::make_unique<PortDouble>(entry.make(problem, context),
                                                  PortDouble::Uses{{Pass::kForward, {moments}}});
            }
            throw std::logic_error("no cpu_reference");
          }};
}

class NetPorts : public testing::Test {
 protected:
  /// Of these layers and an end.
  void make(const std::string& layers, NetMode mode = NetMode::kTraining,
            const std::string& keys = "") {
    seen.clear();
    memory_of.clear();
    net_.reset();
    network_ = make_network("backend: cpu_reference\n" + keys +
                                "data: {dataset: synthetic_images, batch: 2}\n"
                                "layers:\n" +
                                layers +
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
  /// Of the layer's passes, as tables have them.
  std::vector<std::string> details(const std::string& name) const {
    std::vector<std::string> all;
    for (const Net::Node::Step& step : node(name).steps) all.push_back(node(name).detail(step));
    return all;
  }
  /// A training step, and an evaluation, in which nothing is handed on.
  void run() {
    net_->forward(&step_);
    net_->backward(&step_);
    const auto in_training = seen;
    net_->infer();
    EXPECT_EQ(seen, in_training) << "in evaluation too";
  }
  void expect_none(const std::string& layer) {
    run();
    EXPECT_TRUE(seen.empty());
    for (const std::string& detail : details(layer)) EXPECT_EQ(detail, "");
  }

  const InList<Conv2dProblem> convolutions_{
      conv2d_impls(),
      {staging<1>("one"), staging<2>("two"), staging<2>("other"), staging<2, false>("turns"),
       leaving_moments()}};
  const InList<BatchNormProblem> norms_{
      batch_norm_impls(), {taking_moments<true>("takes"), taking_moments<false>("may")}};
  uint64_t step_ = 0;
  Context context_{Device::kCpu};
  TestNetwork network_;
  std::unique_ptr<Weights> weights_;
  std::unique_ptr<Net> net_;
};

using Details = std::vector<std::string>;
using Seen = std::map<std::string, int>;

std::string convolution(const std::string& name, const std::string& by) {
  return "  - {name: " + name + ", type: conv2d, out_channels: 3, kernel: 3, backend: " + by +
         "}\n";
}
std::string two_convolutions(const std::string& by) {
  return convolution("conv1", "cpu_double_one") + convolution("conv2", by);
}

TEST_F(NetPorts, GoFromPassToPass) {
  make(two_convolutions("cpu_double_two"));
  run();
  EXPECT_EQ(details("conv2"),
            (Details{"x to backward_filter, w to backward_data", "dy to backward_data", ""}));
  // conv1 has no backward_data.
  EXPECT_EQ(node("conv1").detail(node("conv1").steps[0]), "x to backward_filter");
  EXPECT_EQ(seen, (Seen{{"forward x", 2},
                        {"forward w", 1},
                        {"backward_filter x", 2},
                        {"backward_filter dy", 1},
                        {"backward_data dy", 1},
                        {"backward_data w", 1}}));
}

TEST_F(NetPorts, GoFromImplementationToImplementation) {
  make(
      two_convolutions("{forward: cpu_double_two, backward_filter: cpu_double_other, "
                       "backward_data: cpu_double_two}"));
  run();
  EXPECT_EQ(details("conv2"),
            (Details{"x to backward_filter, w to backward_data", "dy to backward_data", ""}));
  make(
      two_convolutions("{forward: cpu_double_two, backward_filter: cpu_double_other, "
                       "backward_data: cpu_double_turns}"));
  run();
  EXPECT_EQ(details("conv2"), (Details{"x to backward_filter", "dy to backward_data", ""}));
  make(
      two_convolutions("{forward: cpu_double_two, backward_filter: cpu_reference, "
                       "backward_data: cpu_double_two}"));
  run();
  EXPECT_EQ(details("conv2"), (Details{"w to backward_data", "", ""}));
}

TEST_F(NetPorts, StayUnconnectedElsewhere) {
  make(two_convolutions("cpu_double_two"), NetMode::kTraining, "fuse: false\n");
  expect_none("conv2");
  make(convolution("conv2",
                   "{forward: cpu_reference, backward_filter: cpu_double_two, "
                   "backward_data: cpu_reference}"));
  expect_none("conv2");
  make(two_convolutions("cpu_double_two"), NetMode::kInference);
  net_->infer();
  EXPECT_TRUE(seen.empty());
}

const std::string kLeaves = convolution("conv1", "cpu_double_leaves");
const std::string kTakes = "  - {name: bn1, type: batch_norm2d, backend: cpu_double_takes}\n";

TEST_F(NetPorts, GoFromAConvolutionToTheNormalisationBehindIt) {
  make(kLeaves + kTakes);
  run();
  EXPECT_EQ(seen, (Seen{{"forward moments of x", 1}, {"forward moments of y", 1}}));
  EXPECT_EQ(memory_of["moments of x"], memory_of["moments of y"]);
  EXPECT_EQ(details("conv1"), (Details{"moments to bn1", "", ""}));
  EXPECT_EQ(details("bn1"), (Details{"moments from conv1", ""}));
  // In memory of their own while they are needed.
  const auto* const begin = static_cast<const char*>(memory_of["moments of x"]);
  const size_t bytes = ChannelMoments::desc(3, kParts).bytes();
  for (const char* name : {"conv1", "bn1"}) {
    for (const Tensor& t : {node(name).tensors.x[0], node(name).tensors.y[0]}) {
      const auto* const other = static_cast<const char*>(t.memory);
      EXPECT_TRUE(begin + bytes <= other || other + t.bytes() <= begin);
    }
  }
}

TEST_F(NetPorts, GoToAllWhoTakeThem) {
  make(kLeaves + kTakes + "  - {name: sum, type: add, inputs: [bn1, conv1]}\n");
  run();
  EXPECT_EQ(seen, (Seen{{"forward moments of x", 1}, {"forward moments of y", 1}}));
  // Who gains nothing takes what is there for others.
  for (const char* second : {"cpu_double_takes", "cpu_double_may"}) {
    make(kLeaves + kTakes +
         "  - {name: bn2, type: batch_norm2d, inputs: conv1, backend: " + second +
         "}\n"
         "  - {name: sum, type: add, inputs: [bn1, bn2]}\n");
    run();
    EXPECT_EQ(seen, (Seen{{"forward moments of x", 2}, {"forward moments of y", 1}})) << second;
    EXPECT_EQ(details("conv1")[0], "moments to bn1, bn2");
  }
}

TEST_F(NetPorts, AreLeftForNobodyWhoGainsNothing) {
  make(kLeaves + "  - {name: bn1, type: batch_norm2d, backend: cpu_double_may}\n");
  expect_none("conv1");
  make(kLeaves + "  - {name: bn1, type: batch_norm2d}\n");
  expect_none("conv1");
  make(convolution("conv1", "cpu_reference") + kTakes);
  expect_none("conv1");
  make(kLeaves + "  - {name: bn1, type: batch_norm2d, backend: cpu_double_takes, frozen: true}\n");
  expect_none("conv1");
}

TEST_F(NetPorts, StayWithTheirTensor) {
  make(kLeaves + "  - {type: tanh}\n" + kTakes);
  expect_none("conv1");
  make(kLeaves +
       "  - {type: flatten, name: view}\n"
       "  - {name: bn1, type: batch_norm1d, backend: cpu_double_takes}\n");
  expect_none("conv1");
}

}  // namespace
}  // namespace duet
