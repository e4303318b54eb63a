#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "layers/activation/activation.h"
#include "layers/batch_norm/batch_norm.h"
#include "layers/concat/concat.h"
#include "layers/conv2d_pool_relu/conv2d_pool_relu.h"
#include "layers/dropout/dropout.h"
#include "layers/layer_cases.h"
#include "measure/examine/examine.h"
#include "measure/examine/memory_use.h"
#include "measure/time/measure_pass.h"
#include "support/case_rig.h"
#include "support/double_base.h"
#include "support/examine_cases.h"
#include "support/text.h"

namespace duet {
namespace {

TEST(Examine, DoublesAreCaught) { check_doubles_are_caught(Device::kCpu); }
TEST(Examine, FarWritesAreCaught) { check_far_writes_are_caught(Device::kCpu); }
TEST(Examine, MemoryIsWatched) {
  if (memory_in_use(Device::kCpu) == 0)
    GTEST_SKIP() << "needs the heap of the C library (a build without a sanitizer)";
  check_memory_is_watched(Device::kCpu);
}
TEST(Examine, WhatIsDocumentedToGetByDoes) { check_what_gets_by(Device::kCpu); }
TEST(Examine, FreshMemoryIsFilled) {
  if (memory_in_use(Device::kCpu) == 0)
    GTEST_SKIP() << "needs the heap of the C library (a build without a sanitizer)";
  check_fresh_memory_is_filled(Device::kCpu);
}
TEST(Examine, SoundImplementationsPass) { check_sound_ones_pass(Device::kCpu); }
TEST(Examine, SoundImplementationsPassInBf16) { check_sound_ones_pass(Device::kCpu, true); }

/// Its backward is right once behind each forward.
class UsesUpState : public DoubleBase {
 public:
  using DoubleBase::DoubleBase;
  size_t state_bytes() const override { return sizeof(int); }
  void run(Pass pass, const Run& run, const LayerTensors& tensors) override {
    int& left = *static_cast<int*>(tensors.state.memory);
    sound_->run(pass, run, tensors);
    if (pass == Pass::kForward) {
      left = 1;
    } else if (--left < 0) {
      std::memset(tensors.dx[0].memory, 0, tensors.dx[0].bytes());
    }
  }
};

/// Keeps its mask in memory that the first instance makes for all, as large as that needs it.
class KeepsMaskForAll : public DoubleBase {
 public:
  using DoubleBase::DoubleBase;
  void run(Pass pass, const Run& run, const LayerTensors& tensors) override {
    const auto count = static_cast<size_t>(tensors.x[0].elements());
    static auto* const kept = new std::vector<float>(count);
    const size_t fits = std::min(count, kept->size());
    if (pass == Pass::kForward) {
      std::copy_n(static_cast<const float*>(tensors.x[0].memory), fits, kept->data());
      return sound_->run(pass, run, tensors);
    }
    std::vector<float> x = *kept;
    x.resize(count);
    LayerTensors own = tensors;
    own.x[0].memory = x.data();
    sound_->run(pass, run, own);
  }
};

template <class Double>
std::vector<Fault> faults_of_relu(Pass pass) {
  const InList<ActivationProblem> listed(
      relu_impls(),
      {{"cpu_double_relu", supports_all,
        [](const ActivationProblem& problem, Context& context) -> std::unique_ptr<Implementation> {
          return std::make_unique<Double>(
              make_sound(relu_impls(), "cpu_reference", problem, context));
        }}});
  const auto layer = make_layer("relu", {.name = "doubles", .x = {{{16, 20}}}});
  const CheckData check_data = make_check_data(*layer, random_data(*layer, 1), {}, layer->passes());
  return check(*layer, "cpu_double_relu", pass, check_data, test_context(Device::kCpu)).faults;
}

TEST(Examine, ABackwardThatUsesUpStateIsNamed) {
  EXPECT_TRUE(faults_of_relu<UsesUpState>(Pass::kForward).empty());
  const auto faults = faults_of_relu<UsesUpState>(Pass::kBackward);
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0].kind, FaultKind::kUsesUpState) << faults[0].text;
}

// It is wrong on another shape, too, which says less.
TEST(Examine, StateOfTheFirstShapeIsSharedState) {
  const auto faults = faults_of_relu<KeepsMaskForAll>(Pass::kBackward);
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0].kind, FaultKind::kSharedState) << faults[0].text;
}

/// Draws the mask of the first step again and again.
class SameMask : public DoubleBase {
 public:
  using DoubleBase::DoubleBase;
  void run(Pass pass, const Run& run, const LayerTensors& tensors) override {
    if (step_ == 0) step_ = *run.step;
    sound_->run(pass, {run.context, run.workspace, run.workspace_bytes, &step_, run.training},
                tensors);
  }

 private:
  uint64_t step_ = 0;
};

TEST(Examine, AMaskMustFollowTheStep) {
  const InList<DropoutProblem> listed(
      dropout_impls(),
      {{"cpu_double_same_mask", supports_all,
        [](const DropoutProblem& problem, Context& context) -> std::unique_ptr<Implementation> {
          return std::make_unique<SameMask>(dropout_impls().front().make(problem, context));
        }}});
  const auto layer = make_layer("dropout", {.name = "doubles", .x = {{{16, 20}}}});
  const CheckData check_data = make_check_data(*layer, random_data(*layer, 1), {}, layer->passes());
  for (Pass pass : layer->passes()) {
    const Examination found =
        check(*layer, "cpu_double_same_mask", pass, check_data, test_context(Device::kCpu));
    ASSERT_FALSE(found.passed()) << to_string(pass);
    EXPECT_TRUE(has(found.faults[0].text, "with other data"));
  }
}

/// Writes to the second input's gradient where the first's is not wanted.
class IgnoresWishes : public DoubleBase {
 public:
  using DoubleBase::DoubleBase;
  void run(Pass pass, const Run& run, const LayerTensors& t) override {
    sound_->run(pass, run, t);
    if (pass != Pass::kForward && !t.dx[0] && t.dx[1]) t.dx[1].data<float>()[3] += 1;
  }
};

TEST(Examine, GradientsThatNobodyWantsChangeNoOthers) {
  const InList<ConcatProblem> listed(
      concat_impls(),
      {{"cpu_double_ignores_wishes", supports_all,
        [](const ConcatProblem& problem, Context& context) -> std::unique_ptr<Implementation> {
          return std::make_unique<IgnoresWishes>(concat_impls().front().make(problem, context));
        }}});
  const auto layer =
      make_layer("concat", {.name = "doubles", .x = {{{2, 3, 4, 5}}, {{2, 2, 4, 5}}}});
  const CheckData check_data = make_check_data(*layer, random_data(*layer, 1), {}, layer->passes());
  for (const CheckLevel level : {CheckLevel::kAgreement, CheckLevel::kEverything}) {
    const auto faults = [&](std::string_view id) {
      return check(*layer, id, Pass::kBackward, check_data, test_context(Device::kCpu), level)
          .faults;
    };
    EXPECT_TRUE(faults("cpu_reference").empty());
    ASSERT_EQ(faults("cpu_double_ignores_wishes").size(), 1u);
    EXPECT_TRUE(has(faults("cpu_double_ignores_wishes")[0].text,
                    "changes dx[1] where the gradients of 1 inputs are not wanted"));
  }
}

// backward_data of a block follows backward_filter, which at another width cannot run: nor is that asked for there.
TEST(Examine, NeighboursMayBeRefusedAPass) {
  static constexpr int kWidth = 8;
  const InList<Conv2dPoolReluProblem> listed(
      conv2d_pool_relu_impls(),
      {{"cpu_double_one_width",
        [](const Conv2dPoolReluProblem& problem, Pass pass) -> std::optional<std::string> {
          if (pass == Pass::kBackwardFilter && problem.conv.w != kWidth) return "takes one width";
          return {};
        },
        [](const Conv2dPoolReluProblem& problem, Context& context) {
          return make_sound(conv2d_pool_relu_impls(), problem, context);
        }}});
  const auto layer = make_layer(
      "conv2d_pool_relu",
      {.name = "doubles",
       .keys = {{"out_channels", "4"}, {"kernel", "3"}, {"padding", "1"}, {"pool_kernel", "2"}},
       .x = {{{2, 3, 6, kWidth}}}});
  const CheckData check_data = make_check_data(*layer, random_data(*layer, 1), {}, layer->passes());
  for (Pass pass : layer->passes()) {
    const Examination found =
        check(*layer, "cpu_double_one_width", pass, check_data, test_context(Device::kCpu));
    for (const Fault& fault : found.faults) ADD_FAILURE() << to_string(pass) << ": " << fault.text;
  }
}

/// Forgets the running mean: that which it updates is not the network's.
class LostBuffer : public DoubleBase {
 public:
  using DoubleBase::DoubleBase;
  void run(Pass pass, const Run& run, const LayerTensors& tensors) override {
    LayerTensors t = tensors;
    const size_t index = tensors.w.size() - 2;  // behind weight and bias, if there are any
    const Tensor& mean = tensors.w[index];
    own_.assign(mean.data<float>(), mean.data<float>() + mean.elements());
    t.w[index].memory = own_.data();
    sound_->run(pass, run, t);
  }

 private:
  std::vector<float> own_;
};

// Forward changes them in every call; each call that is looked at starts from those loaded.
TEST(Examine, BuffersAreOutputsOfForward) {
  const InList<BatchNormProblem> listed(
      batch_norm_impls(),
      {{"cpu_double_lost_buffer", supports_all,
        [](const BatchNormProblem& problem, Context& context) -> std::unique_ptr<Implementation> {
          return std::make_unique<LostBuffer>(batch_norm_impls().front().make(problem, context));
        }}});
  const auto layer = make_layer("batch_norm2d", {.name = "doubles", .x = {{{4, 6, 5, 5}}}});
  const CheckData check_data = make_check_data(*layer, random_data(*layer, 1), {}, layer->passes());
  for (Pass pass : layer->passes()) {
    const auto results =
        measure_pass({{layer.get(), "cpu_reference"}, {layer.get(), "cpu_double_lost_buffer"}},
                     pass, check_data, test_context(Device::kCpu),
                     {.timing = {.block_seconds = 1e-4, .rounds = 2, .most_rounds = 2}});
    for (const Fault& fault : results[0].examination.faults) ADD_FAILURE() << fault.text;
    EXPECT_TRUE(results[0].warm.has_value());
    if (pass != Pass::kForward) continue;
    ASSERT_FALSE(results[1].examination.passed());
    EXPECT_TRUE(has(results[1].examination.faults[0].text, "running_mean"))
        << results[1].examination.faults[0].text;
  }
}

}  // namespace
}  // namespace duet
