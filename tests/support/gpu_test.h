// The fixture of tests that need a GPU: without one they are skipped, and say why.
#pragma once

#include <gtest/gtest.h>

#include "device/device.h"
#include "device/gpu.h"

namespace duet {

class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!gpu_available()) GTEST_SKIP() << gpu_missing_reason();
  }
};

/// Of what needs wgmma.
class HopperTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (!IsSkipped() && gpu::compute_capability() < 90)
      GTEST_SKIP() << "needs a GPU of compute capability 9.0 or higher";
  }
};

}  // namespace duet
