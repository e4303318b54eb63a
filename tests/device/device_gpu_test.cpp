// Memory of the GPU.
#include "device/device.h"

#include <gtest/gtest.h>

#include "support/gpu_test.h"
#include "support/text.h"

namespace duet {
namespace {

using DeviceGpu = GpuTest;

TEST_F(DeviceGpu, MoreThanThereIsIsToldAndForgotten) {
  EXPECT_GT(gpu_memory(), size_t{1} << 30);
  const auto take = [] { const Buffer buffer(Device::kGpu, 2 * gpu_memory()); };
  EXPECT_TRUE(has(error_of<OutOfMemoryError>(take), "smaller batch"));
  // What follows works: CUDA keeps no error.
  const Buffer small(Device::kGpu, 1024);
  fill_bytes(small.data(), Device::kGpu, 7, 1024);
  char byte = 0;
  copy_bytes(&byte, Device::kCpu, small.at(1023), Device::kGpu, 1);
  EXPECT_EQ(byte, 7);
}

}  // namespace
}  // namespace duet
