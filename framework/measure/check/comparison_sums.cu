// Compiled without fused multiply-adds, so that every element's share of its limit has the same
// bits as on the CPU, and the worst element is the same one.
#include <vector>

#include "core/storage.h"
#include "device/check.h"
#include "measure/check/comparison_sums.h"

namespace duet {
namespace {

constexpr int kThreads = 256;

/// Block k adds up part k. The order is always the same.
template <class T>
__global__ void comparison_sums_kernel(ComparisonSums* parts, const double* expected,
                                       const double* sizes, double rms, const T* found,
                                       int64_t count, Limit limit) {
  __shared__ alignas(ComparisonSums) char memory[kThreads * sizeof(ComparisonSums)];
  auto* sums = reinterpret_cast<ComparisonSums*>(memory);
  const int64_t first = blockIdx.x * kComparedInPart;
  const int64_t last = first + kComparedInPart < count ? first + kComparedInPart : count;
  ComparisonSums own;
  for (int64_t i = first + threadIdx.x; i < last; i += kThreads) {
    own.add_element(i, expected[i], static_cast<double>(found[i]), sizes ? sizes[i] : rms, limit);
  }
  sums[threadIdx.x] = own;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) sums[threadIdx.x].add(sums[threadIdx.x + half]);
    __syncthreads();
  }
  if (threadIdx.x == 0) parts[blockIdx.x] = sums[0];
}

}  // namespace

ComparisonSums comparison_sums_on_gpu(const ExpectedValues& expected, const Tensor& found,
                                      const Limit& limit, Context& context) {
  ComparisonSums all;
  const int64_t count = found.elements();
  if (count == 0) return all;
  std::vector<ComparisonSums> parts(
      static_cast<size_t>((count + kComparedInPart - 1) / kComparedInPart));
  const Buffer memory(Device::kGpu, parts.size() * sizeof(ComparisonSums));
  visit_values(found.desc.dtype, [&](auto zero) {
    using T = decltype(zero);
    comparison_sums_kernel<T>
        <<<static_cast<unsigned>(parts.size()), kThreads, 0, context.stream()>>>(
            static_cast<ComparisonSums*>(memory.data()), expected.values, expected.sizes,
            expected.sums.size_rms(), found.data<T>(), count, limit);
    DUET_LAUNCHED();
  });
  copy_bytes(parts.data(), Device::kCpu, memory.data(), Device::kGpu, memory.bytes());
  for (const ComparisonSums& part : parts) all.add(part);
  return all;
}

}  // namespace duet
