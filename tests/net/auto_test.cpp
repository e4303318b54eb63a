// `backend: auto`: the fastest that is right plays, what was measured is remembered, and nothing
// wrong gets through, however fast.
#include "net/auto.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/error.h"
#include "layers/activation/activation.h"
#include "net/table.h"
#include "support/doubles.h"
#include "support/network.h"
#include "support/temporary_folder.h"
#include "support/text.h"

namespace duet {
namespace {

constexpr size_t kLimit = size_t{1} << 30;  // a context's own
// Microseconds. The longest is far from the others even where a sleep takes milliseconds more.
constexpr int kQuick = 50, kSlow = 600, kSnail = 100000;
int made = 0;         // implementations of the test's lists
int backwards = 0;    // that they ran
int in_training = 0;  // calls of passes

// relu by cpu_reference, after a while.
template <int kMicroseconds>
class Slow : public ActivationImpl {
 public:
  Slow(const ActivationProblem& problem, Context& context)
      : ActivationImpl(problem), reference_(activation_cpu_reference().make(problem, context)) {
    ++made;
  }
  void forward(const Run& run, const Tensor& x, const Tensor& y, const Tensor&) override {
    in_training += run.training;
    std::this_thread::sleep_for(std::chrono::microseconds(kMicroseconds));
    reference_->run(Pass::kForward, run, {.x = {x}, .y = {y}});
  }
  void backward(const Run& run, const Tensor& x, const Tensor& y, const Tensor& dy, const Tensor&,
                const Tensor& dx) override {
    ++backwards;
    in_training += run.training;
    std::this_thread::sleep_for(std::chrono::microseconds(kMicroseconds));
    reference_->run(Pass::kBackward, run, {.x = {x}, .y = {y}, .dx = {dx}, .dy = {dy}});
  }

 private:
  std::unique_ptr<Implementation> reference_;
};

// Quick about it: there is nothing but zeros.
class Wrong : public ActivationImpl {
 public:
  explicit Wrong(const ActivationProblem& problem) : ActivationImpl(problem) { ++made; }
  void forward(const Run&, const Tensor&, const Tensor& y, const Tensor&) override { fill(y); }
  void backward(const Run&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                const Tensor& dx) override {
    fill(dx);
  }

 private:
  static void fill(const Tensor& t) { std::fill_n(t.data<float>(), t.elements(), 0.0f); }
};

using List = std::vector<ImplEntry<ActivationProblem>>;

// The reference is in every list; it is no candidate here.
const List& list_of_all() {
  static const List list = {{"cpu_slow", supports_all, make_implementation<Slow<kSlow>>},
                            {"cpu_wrong", supports_all, make_implementation<Wrong>},
                            {"cpu_snail", supports_all, make_implementation<Slow<kSnail>>},
                            {"cpu_quick", supports_all, make_implementation<Slow<kQuick>>},
                            activation_cpu_reference()};
  return list;
}

// Two layers behind each other, both of them asking for measurement; the first has no gradient.
std::vector<ResolvedLayer> relu_layers(const std::vector<std::string>& ids) {
  std::vector<ResolvedLayer> layers;
  for (const char* name : {"first", "relu"}) {
    const auto layer =
        std::make_shared<ActivationLayer>("relu", list_of_all(), ActivationKind::kRelu);
    layer->bind({{{4, 5}}}, {});
    const bool first = layers.empty();
    ResolvedLayer resolved{name, name, layer, {}, {{first ? kField : 0, 0, !first}}};
    for (Pass pass : layer->passes()) {
      PassChoice choice{pass, std::string(kAuto)};
      for (const std::string& id : ids) choice.candidates.push_back({id});
      resolved.passes.push_back(choice);
    }
    layers.push_back(resolved);
  }
  return layers;
}
const std::vector<std::string> kAll = {"cpu_slow", "cpu_wrong", "cpu_snail", "cpu_quick"};

class Auto : public testing::Test {
 protected:
  Auto() { made = backwards = in_training = 0; }

  void choose(std::vector<ResolvedLayer>& layers, NetMode mode = NetMode::kTraining) {
    TuningCache cache(file_);
    choose_automatically(layers, context_, cache,
                         {[this](const std::string& text) { infos_ += text + "\n"; },
                          [this](const std::string& text) { warnings_ += text + "\n"; }},
                         mode);
  }

  Context context_{Device::kCpu};
  const TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_ / "auto.json";
  std::string infos_, warnings_;
};

void expect_quick(const std::vector<ResolvedLayer>& layers) {
  for (const ResolvedLayer& layer : layers) {
    for (const PassChoice& choice : layer.passes) {
      EXPECT_EQ(choice.id, "cpu_quick") << layer.name << " " << to_string(choice.pass);
    }
  }
}

TEST_F(Auto, TakesTheFastestThatIsRight) {
  auto layers = relu_layers(kAll);
  choose(layers);
  expect_quick(layers);
  // The gradient of the first layer is nobody's: nothing was measured for it.
  EXPECT_TRUE(layers[0].passes[1].candidates.empty());
  // relu is played by one implementation in both passes, so its times are of both together.
  const auto& candidates = layers[1].passes[1].candidates;
  ASSERT_EQ(candidates.size(), 4u);
  EXPECT_EQ(candidates[0].id, "cpu_quick");
  EXPECT_GE(candidates[0].microseconds, 2.0 * kQuick);
  EXPECT_EQ(candidates[1].id, "cpu_slow");
  const bool busy = candidates[1].far_slower;  // others hold the cores while it sleeps
  if (!busy) {
    EXPECT_GE(candidates[1].microseconds, 2.0 * kSlow);
  }
  // Not worth measuring exactly.
  EXPECT_EQ(candidates[2].id, "cpu_snail");
  EXPECT_TRUE(candidates[2].far_slower);
  EXPECT_EQ(candidates[2].microseconds, 0.0);
  EXPECT_EQ(candidates[3].id, "cpu_wrong");
  EXPECT_EQ(candidates[3].microseconds, 0.0);
  EXPECT_TRUE(has(candidates[3].fault, "forward returns zeros"));
  EXPECT_EQ(layers[1].passes[0].candidates.size(), 4u);
  // It is said, and shown.
  EXPECT_TRUE(has(infos_, "measuring the implementations of 3 passes"));
  EXPECT_TRUE(has(warnings_, "auto: relu: cpu_wrong is left out: "));
  const std::string table = network_table(layers, nullptr);
  EXPECT_TRUE(has(table, busy ? " us; cpu_slow, cpu_snail far" : " us; cpu_slow ",
                  "cpu_snail far slower; cpu_wrong failed the check"));
  const auto pass = network_json(layers, nullptr)[1]["passes"][0];
  EXPECT_EQ(pass["auto"][0]["implementation"], "cpu_quick");
  if (!busy) {
    EXPECT_GE(pass["auto"][1]["us"], 2.0 * kSlow);
  }
  EXPECT_EQ(pass["auto"][2]["far_slower"], true);
  EXPECT_FALSE(pass["auto"][3].contains("us"));
  EXPECT_EQ(pass["auto"][3]["fault"], candidates[3].fault);
}

TEST_F(Auto, RemembersWhatItMeasured) {
  auto layers = relu_layers(kAll);
  EXPECT_EQ(recall_choices(layers, Device::kCpu, kLimit, TuningCache(file_)), 3u);
  EXPECT_EQ(layers[1].passes[0].id, kAuto);
  choose(layers);
  const int before = made;
  EXPECT_GT(before, 0);
  infos_.clear();

  auto again = relu_layers(kAll);
  choose(again);
  EXPECT_EQ(made, before);
  EXPECT_EQ(infos_, "");
  expect_quick(again);
  const auto& candidates = again[1].passes[0].candidates;
  ASSERT_EQ(candidates.size(), 4u);
  EXPECT_EQ(candidates[1].microseconds, layers[1].passes[0].candidates[1].microseconds);
  EXPECT_TRUE(candidates[2].far_slower);
  EXPECT_NE(candidates[3].fault, "");
  auto dry = relu_layers(kAll);
  EXPECT_EQ(recall_choices(dry, Device::kCpu, kLimit, TuningCache(file_)), 0u);
  expect_quick(dry);

  // Another limit may mean other algorithms.
  auto tight = relu_layers(kAll);
  EXPECT_EQ(recall_choices(tight, Device::kCpu, 0, TuningCache(file_)), 3u);
  // Other candidates: an older answer says nothing about them.
  auto other = relu_layers({"cpu_slow", "cpu_quick"});
  EXPECT_EQ(recall_choices(other, Device::kCpu, kLimit, TuningCache(file_)), 3u);
  choose(other);
  EXPECT_GT(made, before);
}

TEST_F(Auto, MeasuresTheForwardPassesAloneWhereNoOthersWillRun) {
  auto layers = relu_layers({"cpu_slow", "cpu_quick"});
  choose(layers, NetMode::kInference);
  expect_quick(layers);
  EXPECT_EQ(backwards, 0);
  EXPECT_TRUE(has(infos_, "measuring the implementations of 2 passes"));
  EXPECT_FALSE(layers[1].passes[0].candidates.empty());
  EXPECT_TRUE(layers[1].passes[1].candidates.empty());
  auto again = relu_layers({"cpu_slow", "cpu_quick"});
  EXPECT_EQ(recall_choices(again, Device::kCpu, kLimit, TuningCache(file_), NetMode::kInference),
            0u);
  // It says nothing about a training.
  auto trained = relu_layers({"cpu_slow", "cpu_quick"});
  EXPECT_EQ(recall_choices(trained, Device::kCpu, kLimit, TuningCache(file_)), 3u);
  choose(trained);
  EXPECT_GT(backwards, 0);
}

// Implementations may have no pass of a training for that problem, as batch normalisation of one value.
TEST_F(Auto, MeasuresGradientsOfAPredictionInEvaluation) {
  auto layers = relu_layers({"cpu_slow", "cpu_quick"});
  choose(layers, NetMode::kGradients);
  expect_quick(layers);
  EXPECT_GT(backwards, 0);
  EXPECT_EQ(in_training, 0);
}

TEST_F(Auto, DistrustsWhatItCannotUse) {
  const std::vector<std::string> ids = {"cpu_slow", "cpu_quick"};
  auto layers = relu_layers(ids);
  choose(layers);
  nlohmann::json entries = nlohmann::json::parse(folder_.read("auto.json"));
  EXPECT_EQ(entries.size(), 2u);  // forward alone, and both passes
  const auto refuses = [&](const std::string& text) {
    folder_.write("auto.json", text);
    auto once_more = relu_layers(ids);
    EXPECT_EQ(recall_choices(once_more, Device::kCpu, kLimit, TuningCache(file_)), 3u) << text;
    choose(once_more);
    expect_quick(once_more);
  };
  refuses("{\"half of");
  refuses("");
  // Of a program that was built at another time: a kernel may have changed under its name.
  auto older = entries;
  for (auto& entry : older) entry["built"] = entry["built"].get<int64_t>() - 1;
  refuses(older.dump());
  auto nothing = entries;
  for (auto& entry : nothing) entry.erase("cpu_slow");
  refuses(nothing.dump());
  for (auto& entry : entries) entry["cpu_slow"] = entry["cpu_quick"] = 0;
  refuses(entries.dump());
}

TEST_F(Auto, SaysWhyNothingIsLeft) {
  auto layers = relu_layers({"cpu_wrong"});
  EXPECT_TRUE(has(error_of<UnsupportedError>([&] { choose(layers); }),
                  "no implementation of first forward (relu, x=4x5", "is right here",
                  "cpu_wrong: forward returns zeros"));
  // Not from the cache either: then the reasons would be lost.
  auto again = relu_layers({"cpu_wrong"});
  EXPECT_THROW(choose(again), UnsupportedError);
}

constexpr const char* kNetwork = R"(
data: {dataset: synthetic_images, batch: 5}
layers:
  - {name: conv1, type: conv2d, out_channels: 4, kernel: 3}
  - {name: pool1, type: max_pool2d, kernel: 2}
  - {name: relu1, type: relu}
  - {name: conv2, type: conv2d, out_channels: 4, kernel: 3, backend: BACKEND}
  - {name: flatten, type: flatten}
  - {name: fc, type: linear, out_features: 4}
  - {name: loss, type: softmax_cross_entropy}
)";

std::string network(const std::string& backend, const std::string& of_conv2) {
  std::string yaml = "backend: " + backend + kNetwork;
  return yaml.replace(yaml.find("BACKEND"), 7, of_conv2);
}

const ResolvedLayer& layer_named(const std::vector<ResolvedLayer>& layers,
                                 const std::string& name) {
  return *std::find_if(layers.begin(), layers.end(),
                       [&](const ResolvedLayer& layer) { return layer.name == name; });
}

TEST_F(Auto, IsAskedForByLayerAndPass) {
  TestNetwork t = make_network(network("cpu_reference", "{forward: auto}"), {{5, 1, 10, 9}}, 4);
  for (const ResolvedLayer& layer : t.layers) {
    for (const PassChoice& choice : layer.passes) {
      const bool asked = layer.name == "conv2" && choice.pass == Pass::kForward;
      EXPECT_EQ(choice.id, asked ? kAuto : "cpu_reference") << layer.name;
      EXPECT_EQ(choice.candidates.empty(), !asked) << layer.name;
    }
  }
  const std::string before = network_table(t.layers, nullptr);
  EXPECT_TRUE(has(before, "to be measured: cpu_blas, cpu_reference"));
  choose(t.layers);
  const PassChoice& choice = layer_named(t.layers, "conv2").passes[0];
  EXPECT_EQ(choice.id, choice.candidates[0].id);
  EXPECT_GT(choice.candidates[1].microseconds, choice.candidates[0].microseconds);
  EXPECT_EQ(choice.candidates[1].fault, "");
}

// All the ways to be wrong, beside implementations that are right.
TEST_F(Auto, IsNotFooledByDoubles) {
  const Doubles doubles(Device::kCpu);
  TestNetwork t;
  // Those that remember are told by their times, which a busy machine may hide now and then.
  for (int attempt = 0; attempt < 3; ++attempt) {
    std::filesystem::remove(file_);  // what was chosen before
    t = make_network(network("cpu", "auto"), {{5, 1, 10, 9}}, 4);
    choose(t.layers);
    const auto& passes = layer_named(t.layers, "conv2").passes;
    if (std::none_of(passes.begin(), passes.end(),
                     [](const PassChoice& choice) { return has(choice.id, "remembers"); })) {
      break;
    }
  }
  for (const PassChoice& choice : layer_named(t.layers, "conv2").passes) {
    EXPECT_GE(choice.candidates.size(), doubles.infos().size() / 2);
    // One that is sound in forward is slow there, which a busy machine may hide.
    const bool is_sound = choice.pass == Pass::kForward &&
                          std::ranges::any_of(doubles.infos(), [&](const DoubleInfo& info) {
                            return info.id == choice.id && !info.in_forward;
                          });
    EXPECT_TRUE(is_sound || !is_double(choice.id)) << choice.id;
    for (const AutoCandidate& candidate : choice.candidates) {
      EXPECT_TRUE(is_double(candidate.id) || candidate.fault.empty()) << candidate.fault;
      // Whatever was faster than the one that was taken was found out.
      if (candidate.id == choice.id) break;
      EXPECT_NE(candidate.fault, "") << candidate.id;
    }
  }
}

TEST_F(Auto, IsAskedForByTheNetwork) {
  if (gpu_available()) GTEST_SKIP() << "needs a machine without a GPU";
  TestNetwork t = make_network(network("auto", "cpu_reference"), {{5, 1, 10, 9}}, 4);
  // Fused as usual: the block's implementations are what is measured.
  EXPECT_EQ(t.layers[0].name, "conv1+pool1+relu1");
  choose(t.layers);
  for (const ResolvedLayer& layer : t.layers) {
    for (const PassChoice& choice : layer.passes) {
      EXPECT_EQ(device_of(family_of(choice.id)), Device::kCpu) << layer.name;
      EXPECT_TRUE(layer.name != "conv2" || choice.id == "cpu_reference");
    }
  }
  for (const PassChoice& choice : t.layers[0].passes) {
    EXPECT_EQ(choice.id, t.layers[0].passes[0].id);  // a block is run by one implementation
  }
  Weights weights(t.layers, 1, Device::kCpu);
  Net net(t.layers, weights, context_);
  uint64_t step = 0;
  net.forward(&step);
  net.backward(&step);
  EXPECT_EQ(net.find_non_finite(&step), "");
}

TEST_F(Auto, BuffersThatForwardUpdatesAreNoFault) {
  TestNetwork t = make_network(
      "backend: cpu\n"
      "data: {dataset: synthetic_images, batch: 6}\n"
      "layers:\n"
      "  - {type: flatten}\n"
      "  - {name: norm, type: batch_norm1d, backend: auto}\n"
      "  - {type: softmax_cross_entropy}\n",
      {{6, 1, 4, 5}});
  choose(t.layers);
  EXPECT_EQ(warnings_, "");
  for (const PassChoice& choice : t.layers[1].passes) EXPECT_EQ(choice.id, "cpu_reference");
}

TEST_F(Auto, MeansOneDevice) {
  if (gpu_available()) GTEST_SKIP() << "needs a machine without a GPU";
  const std::string family = built_with_cuda() ? "custom" : "cpu";
  const std::string error = error_of([&] {
    make_network(network("auto", family), {{5, 1, 10, 9}}, 4);
  });
  EXPECT_EQ(error.empty(), !built_with_cuda());
  if (!error.empty()) {
    EXPECT_TRUE(has(error,
                    "'custom' runs on the GPU, but this network's backend is 'auto', which is the "
                    "CPU here"));
  }
}

}  // namespace
}  // namespace duet
