#include <gtest/gtest.h>

#include "layers/dropout/dropout_impls.h"
#include "layers/layer_cases.h"
#include "measure/examine.h"
#include "measure/memory_use.h"
#include "support/case_rig.h"
#include "support/double_base.h"
#include "support/examine_cases.h"
#include "support/text.h"

namespace duet {
namespace {

TEST(Examine, DoublesAreCaught) { check_doubles_are_caught(Device::kCpu); }
TEST(Examine, FarWritesAreCaught) { check_far_writes_are_caught(Device::kCpu); }
TEST(Examine, MemoryIsWatched) {
  if (memory_in_use(Device::kCpu) == 0) GTEST_SKIP() << "the heap is not the C library's";
  check_memory_is_watched(Device::kCpu);
}
TEST(Examine, FreshMemoryIsFilled) {
  if (memory_in_use(Device::kCpu) == 0) GTEST_SKIP() << "the heap is not the C library's";
  check_fresh_memory_is_filled(Device::kCpu);
}
TEST(Examine, SoundImplementationsPass) { check_sound_ones_pass(Device::kCpu); }

/// Draws the mask of the first step again and again.
class SameMask : public DoubleBase {
 public:
  using DoubleBase::DoubleBase;
  void run(Pass pass, Context& context, const LayerTensors& tensors) override {
    const uint64_t* step = context.step();
    if (step_ == 0) step_ = *step;
    context.set_step(&step_);
    sound_->run(pass, context, tensors);
    context.set_step(step);
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
        examine(*layer, "cpu_double_same_mask", pass, check_data, test_context(Device::kCpu));
    ASSERT_FALSE(found.passed()) << to_string(pass);
    EXPECT_TRUE(has(found.faults[0].text, "with other data"));
  }
}

}  // namespace
}  // namespace duet
