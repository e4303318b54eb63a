// The fixture of tests that need a GPU: without one they are skipped, and say why.
#pragma once

#include <gtest/gtest.h>

#include "device/device.h"

namespace duet {

class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!gpu_available()) GTEST_SKIP() << gpu_missing_reason();
  }
};

}  // namespace duet
