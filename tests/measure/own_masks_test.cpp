#include "measure/own_masks.h"

#include <gtest/gtest.h>

#include <random>

#include "compare/arms.h"
#include "core/error.h"
#include "layers/dropout/dropout.h"
#include "layers/own_masks.h"
#include "net/choose.h"
#include "support/double_base.h"
#include "support/layer_driver.h"
#include "support/network.h"
#include "support/temporary_folder.h"
#include "support/text.h"
#include "train/trainer.h"

namespace duet {
namespace {

enum class Trick { kNone, kScale, kShare, kOtherMask, kSameMask, kSeed };

// Dropout by a generator that moves on from call to call, with one mistake.
template <Trick trick>
class OwnMasks : public DropoutImpl {
 public:
  explicit OwnMasks(const DropoutProblem& problem)
      : DropoutImpl(problem), random_(trick == Trick::kSeed ? ++made_ : problem.seed) {}

  size_t state_bytes() const override { return static_cast<size_t>(problem_.x.elements()); }

  void forward(const Run& run, const Tensor& x, const Tensor& y, const Tensor& state) override {
    if (!run.training) return run.context.queue_copy(y.memory, x.memory, x.bytes());
    if (trick == Trick::kSameMask) random_.seed(problem_.seed);
    draw(state);
    apply(x, state, y);
  }
  void backward(const Run& run, const Tensor&, const Tensor&, const Tensor& dy, const Tensor& state,
                const Tensor& dx) override {
    if (!run.training) return run.context.queue_copy(dx.memory, dy.memory, dy.bytes());
    if (trick == Trick::kOtherMask) draw(state);
    apply(dy, state, dx);
  }

 private:
  void draw(const Tensor& state) {
    const double p = trick == Trick::kShare ? problem_.p * 0.7 : problem_.p;
    std::bernoulli_distribution kept(1 - p);
    for (int64_t i = 0; i < problem_.x.elements(); ++i) state.data<uint8_t>()[i] = kept(random_);
  }
  void apply(const Tensor& from, const Tensor& state, const Tensor& to) const {
    const float scale = trick == Trick::kScale ? 1.0f : scale_;
    for (int64_t i = 0; i < from.elements(); ++i) {
      to.data<float>()[i] = state.data<uint8_t>()[i] ? from.data<float>()[i] * scale : 0.0f;
    }
  }

  static inline uint64_t made_ = 0;
  std::mt19937_64 random_;
};

constexpr std::string_view kId = "cpu_own_masks";

LayerCase a_case(bool training = true) {
  return {.name = "own", .keys = {{"p", "0.3"}}, .x = {{{40, 50}}}, .training = training};
}

template <Trick trick>
std::vector<Fault> faults_of(Pass pass, bool training = true,
                             CheckLevel level = CheckLevel::kAgreement) {
  const InList<DropoutProblem> listed(dropout_impls(), {impl_entry<OwnMasks<trick>>(kId)});
  const LayerCase c = a_case(training);
  const auto layer = make_layer("dropout", c);
  CheckData check_data = make_check_data("dropout", c);
  return check(*layer, kId, pass, check_data, test_context(Device::kCpu), level).faults;
}

TEST(OwnMasks, AreHeldToWhatEveryMaskMustBe) {
  for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
    for (const CheckLevel level : {CheckLevel::kAgreement, CheckLevel::kEverything}) {
      EXPECT_TRUE(faults_of<Trick::kNone>(pass, true, level).empty()) << to_string(pass);
    }
    EXPECT_TRUE(faults_of<Trick::kNone>(pass, false).empty()) << to_string(pass);
  }
}

void expect_fault(const std::vector<Fault>& faults, FaultKind kind, const std::string& text) {
  ASSERT_FALSE(faults.empty()) << text;
  EXPECT_EQ(faults.front().kind, kind);
  EXPECT_TRUE(has(faults.front().text, text)) << faults.front().text;
}

TEST(OwnMasks, MistakesAreFound) {
  expect_fault(faults_of<Trick::kScale>(Pass::kForward), FaultKind::kWrong, "scaled");
  expect_fault(faults_of<Trick::kShare>(Pass::kForward), FaultKind::kWrong, "the right share");
  expect_fault(faults_of<Trick::kOtherMask>(Pass::kBackward), FaultKind::kWrong,
               "those of forward");
  expect_fault(faults_of<Trick::kSameMask>(Pass::kForward), FaultKind::kWrong, "the same mask");
  expect_fault(faults_of<Trick::kSeed>(Pass::kForward), FaultKind::kUnrepeatable,
               "another instance");
}

std::string ids_of(const std::string& head, const std::string& own = "") {
  const TestNetwork network = make_network(head +
                                               "\ndata: {dataset: synthetic_images}\nlayers:\n"
                                               "  - {type: flatten}\n"
                                               "  - {name: drop, type: dropout" +
                                               own +
                                               "}\n"
                                               "  - {type: linear, out_features: 3}\n"
                                               "  - {type: softmax_cross_entropy}\n",
                                           {{4, 1, 3, 3}}, 3);
  EXPECT_EQ(layer_with_own_masks(network.layers).value_or(""),
            network.layers[1].passes[0].id == kId ? "drop (dropout, cpu_own_masks)" : "");
  return network.layers[1].passes[0].id;
}

TEST(OwnMasks, OnlyWhoNamesThemGetsThem) {
  ImplEntry<DropoutProblem> preferred = impl_entry<OwnMasks<Trick::kNone>>(kId);
  preferred.preferred = [](const DropoutProblem&, Pass, size_t) { return true; };
  const InList<DropoutProblem> listed(dropout_impls(), {preferred});
  EXPECT_EQ(ids_of("backend: cpu"), "cpu_reference");
  EXPECT_EQ(ids_of("backend: cpu", ", backend: cpu"), "cpu_reference");
  EXPECT_EQ(ids_of("backend: cpu", ", backend: cpu_own_masks"), kId);
  const TestNetwork any = make_network(
      "backend: cpu\ndata: {dataset: synthetic_images}\nlayers:\n  - {type: flatten}\n"
      "  - {type: dropout, backend: auto}\n  - {type: linear, out_features: 3}\n"
      "  - {type: softmax_cross_entropy}\n",
      {{4, 1, 3, 3}}, 3);
  ASSERT_EQ(any.layers[1].passes[0].candidates.size(), 1u);
  EXPECT_EQ(any.layers[1].passes[0].candidates[0].id, "cpu_reference");
}

TEST(OwnMasks, AreRefusedWhereMasksMustBeTheSame) {
  const InList<DropoutProblem> listed(dropout_impls(), {impl_entry<OwnMasks<Trick::kNone>>(kId)});
  const TemporaryFolder folder;
  folder.write(
      "net.yaml",
      "backend: cpu\ndata: {dataset: synthetic_images, batch: 4, train_count: 8}\nlayers:\n"
      "  - {type: flatten}\n  - {name: drop, type: dropout, backend: cpu_own_masks}\n"
      "  - {type: linear, out_features: 10}\n  - {type: softmax_cross_entropy}\n");
  const std::string config = folder / "net.yaml";
  const std::string layer = "drop (dropout, cpu_own_masks) draws masks of its own";
  EXPECT_TRUE(has(error_of<ConfigError>([&] {
                    read_arms({.config = config, .requests = {"cpu_blas", "cpu_reference"}});
                  }),
                  layer));
  EXPECT_TRUE(has(
      error_of<ConfigError>([&] { run_trainer({.setup = {.config = config}, .resume = "last"}); }),
      layer));
}

}  // namespace
}  // namespace duet
