// A fault in a replayed step: no layer can be named, so the step is, and how to find the layer. It
// ends all work of its process on the GPU, so that it is made in another one.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>

#include "core/error.h"
#include "layers/activation/activation.h"
#include "support/double_base.h"
#include "support/double_kernels.h"
#include "support/gpu_test.h"
#include "support/temporary_folder.h"
#include "support/training_cases.h"
#include "train/trainer.h"

namespace duet {
namespace {

/// Writes where there is no memory in a call that comes after those of prepare().
class FailsLater : public DoubleBase {
 public:
  explicit FailsLater(std::unique_ptr<Implementation> sound)
      : DoubleBase(std::move(sound)), calls_(Device::kGpu, sizeof(uint64_t)) {
    const uint64_t before = 1000 - 8;  // queue_rare_fault() writes in every thousandth
    copy_bytes(calls_.data(), Device::kGpu, &before, Device::kCpu, sizeof before);
  }
  void run(Pass pass, const Run& run, const LayerTensors& tensors) override {
    sound_->run(pass, run, tensors);
    queue_rare_fault(run.context, static_cast<uint64_t*>(calls_.data()),
                     reinterpret_cast<void*>(16));
  }

 private:
  const Buffer calls_;
};

/// What a training says whose first relu is a FailsLater.
std::string error_of_training() {
  const InList<ActivationProblem> listed(
      relu_impls(),
      {{"custom_double_later", supports_all,
        [](const ActivationProblem& problem, Context& context) -> std::unique_ptr<Implementation> {
          return std::make_unique<FailsLater>(make_sound(relu_impls(), problem, context));
        }}});
  const TemporaryFolder folder;
  std::string network = small_training("custom");
  network.replace(network.find("{type: relu}"), 12, "{type: relu, backend: custom_double_later}");
  folder.write("small.yaml", network);
  TrainerOptions options;
  options.setup.config = folder / "small.yaml";
  options.out = folder / "run";
  try {
    run_trainer(options);
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "nothing";
}

class LostTrainingDeathTest : public GpuTest {};

TEST_F(LostTrainingDeathTest, NamesTheStepAndHowToFindTheLayer) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto lose = [] {
    std::fprintf(stderr, "%s\n", error_of_training().c_str());
    _exit(3);
  };
  EXPECT_EXIT(lose(), testing::ExitedWithCode(3),
              "step [0-9]+ in the replayed graph of .* was queued last.*--set graph=false");
}

}  // namespace
}  // namespace duet
