// The GPU's sums are the CPU's, but for the order in which they are added.
#include "measure/check/comparison_sums.h"

#include <gtest/gtest.h>

#include <cstring>

#include "measure/check/check_set.h"
#include "measure/check/compare_memory.h"
#include "measure/check/guarded_buffer.h"
#include "support/case_rig.h"
#include "support/comparison_cases.h"
#include "support/gpu_test.h"

namespace duet {
namespace {

void expect_close(double found, double expected, const char* what) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(found)) << what;
  } else if (std::isinf(expected)) {
    EXPECT_EQ(found, expected) << what;
  } else {
    EXPECT_NEAR(found, expected, 1e-12 * std::abs(expected)) << what;
  }
}

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

Buffer doubles_on_gpu(const std::vector<double>& values) {
  return stored({{static_cast<int64_t>(values.size())}, DType::kFloat64}, values, Device::kGpu);
}

using ComparisonOnGpu = GpuTest;

TEST_F(ComparisonOnGpu, AddsUpWhatTheCpuAddsUp) {
  Context& context = test_context(Device::kGpu);
  for (const ComparisonCase& c : comparison_cases()) {
    SCOPED_TRACE(c.name + ", " + c.limit.to_string());
    const auto count = static_cast<int64_t>(c.expected.size());
    const bool sized = !c.sizes.empty();
    const TensorDesc desc = {{count}, c.dtype};
    const Buffer found = stored(desc, c.found, Device::kCpu),
                 found_on_gpu = stored(desc, c.found, Device::kGpu),
                 expected = doubles_on_gpu(c.expected),
                 sizes = sized ? doubles_on_gpu(c.sizes) : Buffer();
    ExpectedValues values = {.values = c.expected.data(),
                             .sizes = sized ? c.sizes.data() : nullptr};
    values.sums = reference_sums(values.values, values.sizes, count);
    const ComparisonSums cpu = comparison_sums_on_cpu(values, {desc, found.data()}, c.limit);
    values.values = static_cast<const double*>(expected.data());
    values.sizes = static_cast<const double*>(sizes.data());
    const Tensor tensor = {desc, found_on_gpu.data()};
    const ComparisonSums gpu = comparison_sums(values, tensor, c.limit, context);
    expect_close(gpu.error_square, cpu.error_square, "squares of errors");
    expect_close(gpu.found_square, cpu.found_square, "squares");
    expect_close(gpu.product, cpu.product, "products");
    EXPECT_EQ(gpu.max_error, cpu.max_error);
    EXPECT_EQ(gpu.worst_share, cpu.worst_share);
    EXPECT_EQ(gpu.worst, cpu.worst);
    EXPECT_TRUE(same(gpu.expected, cpu.expected)) << gpu.expected << " for " << cpu.expected;
    EXPECT_TRUE(same(gpu.found, cpu.found)) << gpu.found << " for " << cpu.found;
    EXPECT_EQ(agreement_of(gpu, values.sums, c.limit).agrees,
              agreement_of(cpu, values.sums, c.limit).agrees);
    const ComparisonSums again = comparison_sums(values, tensor, c.limit, context);
    EXPECT_EQ(std::memcmp(&gpu, &again, sizeof gpu), 0) << "not the same bits in another run";
  }
}

TEST_F(ComparisonOnGpu, FindsEveryByteThatDiffers) {
  Context& context = test_context(Device::kGpu);
  for (size_t bytes : {size_t{1}, size_t{2}, size_t{4}, size_t{5}, size_t{1023}, size_t{1 << 20}}) {
    SCOPED_TRACE(bytes);
    const Buffer a(Device::kGpu, bytes), b(Device::kGpu, bytes);
    for (const Buffer* each : {&a, &b}) fill_bytes(each->data(), Device::kGpu, kPoison, bytes);
    EXPECT_TRUE(same_bytes(a.data(), b.data(), bytes, context));
    EXPECT_TRUE(all_bytes(a.data(), std::byte{kPoison}, bytes, context));
    for (size_t at : {size_t{0}, bytes / 2, bytes - 1}) {
      fill_bytes(a.at(at), Device::kGpu, 1, 1);
      EXPECT_FALSE(same_bytes(a.data(), b.data(), bytes, context)) << at;
      EXPECT_FALSE(all_bytes(a.data(), std::byte{kPoison}, bytes, context)) << at;
      fill_bytes(a.at(at), Device::kGpu, kPoison, 1);
    }
    EXPECT_FALSE(all_bytes(b.data(), std::byte{0}, bytes, context));
  }
}

}  // namespace
}  // namespace duet
