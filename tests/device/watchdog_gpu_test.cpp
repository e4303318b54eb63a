#include "core/watchdog.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/running.h"
#include "device/context.h"
#include "support/gpu_test.h"

namespace duet {
namespace {

class WatchdogOnGpuDeathTest : public GpuTest {};

TEST_F(WatchdogOnGpuDeathTest, EndsAWaitForWorkThatDoesNotEnd) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto hang = [] {
    Context context(Device::kGpu);
    context.synchronize();
    const Watchdog watchdog(std::chrono::seconds(1));
    {
      const Running running("custom_spins", "conv2d", "forward");
      context.queue_delay(120.0);
    }
    context.synchronize();
  };
  EXPECT_EXIT(hang(), testing::ExitedWithCode(kExitFailure),
              "the GPU has not finished its work for 1 s; last ran custom_spins in conv2d forward");
}

}  // namespace
}  // namespace duet
