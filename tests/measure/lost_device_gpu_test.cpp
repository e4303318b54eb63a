// An illegal access on the GPU ends the measuring under the name of who made it. It ends all work
// of its process on the GPU, so that it is made in another one.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "core/error.h"
#include "layers/activation/activation.h"
#include "measure/measure_pass.h"
#include "support/case_rig.h"
#include "support/double_base.h"
#include "support/double_kernels.h"
#include "support/gpu_test.h"

namespace duet {
namespace {

class WritesNowhere : public Implementation {
 public:
  void run(Pass, const Run& run, const LayerTensors& tensors) override {
    queue_rare_fault(run.context, reinterpret_cast<uint64_t*>(16), tensors.y[0].memory);
  }
};

class LostGpuDeathTest : public GpuTest {};

TEST_F(LostGpuDeathTest, NamesWhoLostItAndMeasuresNobodyElse) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto lose = [] {
    const InList<ActivationProblem> listed(
        relu_impls(), {{"custom_double_nowhere", supports_all,
                        [](const ActivationProblem&, Context&) -> std::unique_ptr<Implementation> {
                          return std::make_unique<WritesNowhere>();
                        }}});
    const auto layer = make_layer("relu", {.name = "lost", .x = {{{16, 20}}}});
    const CheckData check_data =
        make_check_data(*layer, random_data(*layer, 1), {}, layer->passes());
    Context context(Device::kGpu);
    try {
      measure_pass({{layer.get(), "custom_double_nowhere"}, {layer.get(), "cudnn"}}, Pass::kForward,
                   check_data, context, {});
    } catch (const DeviceLostError& error) {
      std::fprintf(stderr, "%s\n", error.what());
      _exit(3);
    }
  };
  EXPECT_EXIT(lose(), testing::ExitedWithCode(3),
              "custom_double_nowhere failed: .*does nothing more");
}

}  // namespace
}  // namespace duet
