// A GPU that never finishes ends the process, and nothing else does.
#include "core/watchdog.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdio>
#include <optional>

#include "core/child.h"
#include "core/error.h"
#include "core/interrupt.h"
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

// Its parent reads a note, and says itself what comes next.
TEST(WatchdogDeathTest, LeavesANoteInAChild) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto parent = [](bool on_gpu) {
    const InterruptGuard guard;
    const auto hang = [on_gpu](const Send&) {
      const Watchdog watchdog(milliseconds(200));
      std::optional<Running> running(std::in_place, "custom_spins", "conv2d", "forward");
      std::optional<GpuWait> wait;
      if (on_gpu) {
        running.reset();
        wait.emplace();
      }
      std::this_thread::sleep_for(std::chrono::seconds(60));
    };
    std::fprintf(stderr, "[%s]\n", run_in_child(hang, [](const std::string&) {}).text().c_str());
    _exit(7);
  };
  EXPECT_EXIT(parent(false), testing::ExitedWithCode(7),
              "^\\[custom_spins has not ended after 0.2 s\\]");
  EXPECT_EXIT(parent(true), testing::ExitedWithCode(7),
              "^\\[custom_spins ran last, and the GPU has not finished its work for 0.2 s\\]");
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
