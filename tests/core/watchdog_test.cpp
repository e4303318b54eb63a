// A GPU that never finishes ends the process, and nothing else does.
#include "core/watchdog.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/running.h"

namespace duet {
namespace {

using std::chrono::milliseconds;

TEST(WatchdogDeathTest, NamesWhoRanLast) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto hang = [] {
    const Watchdog watchdog(milliseconds(200));
    { const Running running("custom_spins", "conv2d", "forward", "conv1"); }
    const GpuWait wait;
    std::this_thread::sleep_for(std::chrono::seconds(60));
  };
  EXPECT_EXIT(
      hang(), testing::ExitedWithCode(kExitFailure),
      "the GPU has not finished its work for 0.2 s; last ran custom_spins in conv2d forward "
      "\\(layer conv1\\)");
}

TEST(WatchdogDeathTest, NamesWhoNeverEnds) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto hang = [] {
    const Watchdog watchdog(milliseconds(200));
    const Running running("cpu_spins", "conv2d", "forward");
    std::this_thread::sleep_for(std::chrono::seconds(60));
  };
  EXPECT_EXIT(hang(), testing::ExitedWithCode(kExitFailure),
              "error: cpu_spins in conv2d forward has not ended after 0.2 s");
}

TEST(Watchdog, LeavesShortWaitsAndLongWorkAlone) {
  const Watchdog watchdog(milliseconds(300));
  for (int i = 0; i < 12; ++i) {
    const GpuWait wait;
    std::this_thread::sleep_for(milliseconds(50));
  }
  for (int i = 0; i < 12; ++i) {
    const Running running("cpu_works", "conv2d", "forward");
    std::this_thread::sleep_for(milliseconds(50));
  }
  std::this_thread::sleep_for(milliseconds(600));
  const Running running("cpu_reference", "conv2d", "forward");
  std::this_thread::sleep_for(milliseconds(600));
}

}  // namespace
}  // namespace duet
