// What the GPU can do at most, beside what its data sheet's figures make of its clocks.
#include <gtest/gtest.h>

#include <algorithm>

#include "device/attribute.h"
#include "device/cache_flush.h"
#include "device/step_graph.h"
#include "measure/time/ceilings.h"
#include "measure/time/timing.h"
#include "support/gpu_test.h"

namespace duet {
namespace {

class CeilingsOnGpu : public GpuTest {};

TEST_F(CeilingsOnGpu, AreUnderTheDataSheetAndNotFarUnder) {
  Context context(Device::kGpu);
  const Ceilings ceilings = measure_ceilings(context);
  // Memory moves data on both edges of its clock; an SM starts 128 multiply-adds a cycle (64 on
  // compute capability 7.x and 8.0). Clocks are in kHz.
  const double bytes = 2 * 1e3 * gpu_attribute(cudaDevAttrMemoryClockRate) *
                       gpu_attribute(cudaDevAttrGlobalMemoryBusWidth) / 8;
  EXPECT_GT(ceilings.copy_bytes_per_second, 0.6 * bytes);
  EXPECT_LT(ceilings.copy_bytes_per_second, 1.01 * bytes);
  const double flops = 2 * 128 * 1e3 * gpu_attribute(cudaDevAttrClockRate) *
                       gpu_attribute(cudaDevAttrMultiProcessorCount);
  EXPECT_GT(ceilings.fp32_flops_per_second, 0.4 * flops);
  EXPECT_LT(ceilings.fp32_flops_per_second, 1.01 * flops);
  EXPECT_GT(ceilings.tf32_flops_per_second, ceilings.fp32_flops_per_second);
  EXPECT_LT(ceilings.tf32_flops_per_second, 16 * flops);
  EXPECT_GT(ceilings.launch_seconds, 0.1e-6);
  EXPECT_LT(ceilings.launch_seconds, 20e-6);
}

class CacheFlushOnGpu : public GpuTest {};

TEST_F(CacheFlushOnGpu, ACopyAfterItIsSlowerThanACopyAfterACopy) {
  Context context(Device::kGpu);
  CacheFlush flush(context);
  const size_t bytes = l2_bytes() / 8;
  const Buffer from(Device::kGpu, bytes), to(Device::kGpu, bytes);
  const auto best_of = [&](int copies) {
    const auto work = [&] {
      flush.queue();
      for (int i = 0; i < copies; ++i) context.queue_copy(to.data(), from.data(), bytes);
    };
    work();
    context.synchronize();
    StepGraph graph(context, work);
    double best = 1;
    for (int i = 0; i < 5; ++i) {
      best = std::min(best, seconds_of(
                                context, [&] { graph.launch(); }, 100));
    }
    return best;
  };
  const double none = best_of(0), one = best_of(1), two = best_of(2);
  EXPECT_GT(one - none, 1.2 * (two - one))
      << "flush " << none << " s, with one copy " << one << " s, with two " << two << " s";
}

}  // namespace
}  // namespace duet
