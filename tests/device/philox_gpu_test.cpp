// The words that kernels draw, by cuRAND, are those that the CPU computes.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "support/gpu_test.h"
#include "support/philox_kernel.h"

namespace duet {
namespace {

using PhiloxGpu = GpuTest;

TEST_F(PhiloxGpu, WordsAreThoseOfTheCpu) {
  constexpr uint32_t kCount = 1 << 20;
  Context context(Device::kGpu);
  const Buffer memory(Device::kGpu, kCount * sizeof(Philox4));
  for (const uint64_t key : {uint64_t{0}, uint64_t{0x299f31d0a4093822}, ~uint64_t{0}}) {
    queue_philox(context, key, kCount, static_cast<Philox4*>(memory.data()));
    context.synchronize();
    std::vector<Philox4> found(kCount);
    copy_bytes(found.data(), Device::kCpu, memory.data(), Device::kGpu, memory.bytes());
    for (uint32_t i = 0; i < kCount; ++i) {
      const Philox4 expected = philox_of(key, i);
      ASSERT_EQ(std::memcmp(&found[i], &expected, sizeof expected), 0) << i << ", key " << key;
    }
  }
}

}  // namespace
}  // namespace duet
