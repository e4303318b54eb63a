#include "measure/check/guarded_buffer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/arena.h"
#include "core/bfloat16.h"

namespace duet {
namespace {

TEST(GuardedBuffer, DataIsAlignedPoisonedAndWhole) {
  const GuardedTensor t(Device::kCpu, {{3, 7}});
  EXPECT_EQ(reinterpret_cast<uintptr_t>(t.view().memory) % kAlignment, 0u);
  EXPECT_EQ(t.buffer().bytes(), 84u);
  for (double v : t.get()) EXPECT_TRUE(std::isnan(v));
  EXPECT_FALSE(t.buffer().damage());
}

TEST(GuardedBuffer, FindsOneByteWrittenPastTheEnd) {
  GuardedBuffer buffer(Device::kCpu, 13);
  static_cast<char*>(buffer.data())[12] = 0;
  EXPECT_FALSE(buffer.damage());
  static_cast<char*>(buffer.data())[13] = 0;
  EXPECT_EQ(buffer.damage(), "1 bytes written after the end, the first 0 bytes past it");
}

TEST(GuardedBuffer, FindsOneByteWrittenBeforeTheStart) {
  GuardedBuffer buffer(Device::kCpu, 13);
  static_cast<char*>(buffer.data())[-1] = 0;
  EXPECT_EQ(buffer.damage(), "1 bytes written before the start, the nearest 1 bytes before it");
}

TEST(GuardedBuffer, FindsANaNCopiedFromOneGuardToAnother) {
  GuardedTensor x(Device::kCpu, {{5}}), y(Device::kCpu, {{5}});
  y.view().data<float>()[5] = x.view().data<float>()[6];
  EXPECT_TRUE(y.buffer().damage());
  GuardedTensor z(Device::kCpu, {{5}});
  z.view().data<float>()[5] = x.view().data<float>()[-1];
  EXPECT_TRUE(z.buffer().damage());
}

TEST(GuardedBuffer, GuardsReadAsNaN) {
  const GuardedTensor f(Device::kCpu, {{4}, DType::kFloat32});
  const GuardedTensor d(Device::kCpu, {{4}, DType::kFloat64});
  for (int i : {-2, -1, 4, 5}) {
    EXPECT_TRUE(std::isnan(f.view().data<float>()[i])) << i;
    EXPECT_TRUE(std::isnan(d.view().data<double>()[i])) << i;
  }
  const GuardedTensor b(Device::kCpu, {{4}, DType::kBFloat16});
  const int guard = GuardedBuffer::kGuardBytes / 2;
  for (int i = -guard; i < 4 + guard; ++i) {
    EXPECT_TRUE(std::isnan(static_cast<float>(b.view().data<bfloat16>()[i]))) << i;
  }
}

TEST(GuardedBuffer, GuardsAreNoPoison) {
  const GuardedBuffer buffer(Device::kCpu, 0, kWideGuards);
  const auto* words = static_cast<const uint32_t*>(buffer.address()) -
                      GuardedBuffer::kWideGuardBytes / sizeof(uint32_t);
  for (size_t i = 0; i < 2 * GuardedBuffer::kWideGuardBytes / sizeof(uint32_t); ++i) {
    ASSERT_NE(words[i], 0xFFFFFFFFu) << i;
    for (int byte = 0; byte < 32; byte += 8) ASSERT_NE(words[i] >> byte & 0xFF, 0u) << i;
  }
}

TEST(GuardedBuffer, NothingAskedForIsNothingGiven) {
  const GuardedBuffer buffer(Device::kCpu, 0);
  EXPECT_EQ(buffer.data(), nullptr);
  EXPECT_FALSE(buffer.damage());
}

TEST(GuardedTensor, KeepsValuesOfEveryType) {
  for (DType dtype :
       {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kInt32, DType::kUInt8}) {
    GuardedTensor t(Device::kCpu, {{2, 2}, dtype});
    t.set({0, 1, 2, 200});
    EXPECT_EQ(t.get(), (std::vector<double>{0, 1, 2, 200})) << to_string(dtype);
    EXPECT_FALSE(t.buffer().damage());
  }
}

}  // namespace
}  // namespace duet
