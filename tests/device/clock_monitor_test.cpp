#include "device/clock_monitor.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "device/device.h"

namespace duet {
namespace {

TEST(ClockMonitor, SamplesWhereThereIsAGpuAndTellsNothingElsewhere) {
  ClockMonitor monitor;
  std::this_thread::sleep_for(std::chrono::milliseconds(gpu_available() ? 600 : 1));
  const ClockReport report = monitor.report();
  if (!gpu_available()) {
    EXPECT_EQ(report.samples, 0);
    EXPECT_EQ(driver_version(), "");
    return;
  }
  if (driver_version().empty()) GTEST_SKIP() << "needs NVIDIA's driver with NVML";
  if (report.samples == 0) return;  // idle
  EXPECT_GT(report.sm_mhz_min, 0);
  EXPECT_LE(report.sm_mhz_min, report.sm_mhz_max);
  EXPECT_GT(report.temperature_c_max, 0);
}

}  // namespace
}  // namespace duet
