// The plugin that docs/kernels-at-run-time.md shows, compiled by nvcc and run: it has host code and a tensor map.
#include <gtest/gtest.h>

#include "layers/layer_cases.h"
#include "support/gpu_test.h"
#include "support/layer_driver.h"
#include "support/page_kernel.h"
#include "support/temporary_folder.h"
#include "user_kernels/user_kernels.h"

namespace duet {
namespace {

class PluginsOnGpu : public GpuTest {
 protected:
  void TearDown() override { unload_kernels(); }

  const TemporaryFolder folder_;
};

TEST_F(PluginsOnGpu, ThePluginOfThePageIsRight) {
  folder_.write("relu_custom_tma.cu", kernel_of_page("relu_custom_tma.cu"));
  load_kernels({folder_.path()});
  int checked = 0;
  for (const int64_t rows : {1, 63, 64, 65, 1000}) {
    const LayerCase c = {.name = "rows", .x = {{{rows, 32}}}};
    const auto layer = make_layer("relu", c);
    const CheckData data = make_check_data(*layer, random_data(*layer, 1), {}, layer->passes());
    for (const Pass pass : layer->passes()) {
      const auto reason = layer->unsupported("custom_tma", pass);
      if (reason && reason->starts_with("copies in bulk")) GTEST_SKIP() << *reason;
      ASSERT_EQ(reason, std::nullopt);
      const Examination found = check(*layer, "custom_tma", pass, data, test_context(Device::kGpu));
      EXPECT_TRUE(found.passed()) << rows << " " << to_string(pass);
      ++checked;
    }
  }
  EXPECT_EQ(checked, 10);
}

}  // namespace
}  // namespace duet
