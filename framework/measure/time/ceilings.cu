#include "measure/time/ceilings.h"

#include <algorithm>
#include <functional>

#include "device/attribute.h"
#include "device/check.h"
#include "device/philox.h"
#include "device/step_graph.h"
#include "measure/time/timing.h"

namespace duet::gpu {
namespace {

constexpr int kTries = 7;
constexpr int kThreads = 256, kBlocksEach = 8;  // of an SM: all its threads
constexpr int kChains = 8;                      // independent sums in a thread hide the latency
constexpr int kSteps = 4096;

__global__ void multiply_add_kernel(float* out, float a, float b) {
  float sums[kChains];
#pragma unroll
  for (int i = 0; i < kChains; ++i) sums[i] = static_cast<float>(threadIdx.x + i);
  for (int step = 0; step < kSteps; ++step) {
#pragma unroll
    for (int i = 0; i < kChains; ++i) sums[i] = fmaf(sums[i], a, b);
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kChains; ++i) sum += sums[i];
  if (sum == 0.12345f) *out = sum;  // never, but the compiler cannot know
}

__global__ void empty_kernel() {}

__global__ void copy_kernel(const float4* __restrict__ from, float4* __restrict__ to,
                            size_t count) {
  const size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) to[i] = from[i];
}

// Numbers of [-1, 1). The card's clock depends on how many bits change from one product to the
// next: on equal numbers a multiplication runs faster than any network's ever does.
__global__ void fill_random_kernel(float4* to, size_t count, uint64_t seed) {
  const size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const Philox4 words = philox_block(seed, 0, 0, static_cast<uint32_t>(i));
  const auto number = [&](int k) { return 2 * uniform_float(words.v[k]) - 1; };
  to[i] = make_float4(number(0), number(1), number(2), number(3));
}

Buffer random_numbers(Context& context, size_t bytes, uint64_t seed) {
  Buffer buffer(Device::kGpu, bytes);
  const size_t count = bytes / sizeof(float4);
  fill_random_kernel<<<(count + kThreads - 1) / kThreads, kThreads, 0, context.stream()>>>(
      static_cast<float4*>(buffer.data()), count, seed);
  DUET_LAUNCHED();
  return buffer;
}

// In a graph, so that launching costs little beside the work.
double best_seconds(Context& context, int repetitions, const std::function<void()>& work) {
  work();
  context.synchronize();
  StepGraph graph(context, [&] {
    for (int i = 0; i < repetitions; ++i) work();
  });
  return least_seconds_of(
             context, [&] { graph.launch(); }, kTries) /
         repetitions;
}

double copy_rate(Context& context) {
  constexpr size_t kBytes = size_t{512} << 20;
  const Buffer from(Device::kGpu, kBytes), to(Device::kGpu, kBytes);
  fill_bytes(from.data(), Device::kGpu, 1, kBytes);
  constexpr size_t kCount = kBytes / sizeof(float4);
  const double own = best_seconds(context, 4, [&] {
    copy_kernel<<<kCount / kThreads, kThreads, 0, context.stream()>>>(
        static_cast<const float4*>(from.data()), static_cast<float4*>(to.data()), kCount);
    DUET_LAUNCHED();
  });
  const double driver =
      best_seconds(context, 4, [&] { context.queue_copy(to.data(), from.data(), kBytes); });
  return 2.0 * kBytes / std::min(own, driver);
}

double multiply_add_rate(Context& context) {
  const int sms = gpu_attribute(cudaDevAttrMultiProcessorCount);
  const Buffer out(Device::kGpu, sizeof(float));
  const double seconds = best_seconds(context, 4, [&] {
    multiply_add_kernel<<<sms * kBlocksEach, kThreads, 0, context.stream()>>>(
        static_cast<float*>(out.data()), 0.999f, 0.001f);
    DUET_LAUNCHED();
  });
  return 2.0 * sms * kBlocksEach * kThreads * kChains * kSteps / seconds;
}

double tf32_rate(Context& context) {
  constexpr int kSize = 8192;
  constexpr size_t kBytes = size_t{kSize} * kSize * sizeof(float);
  const Buffer a = random_numbers(context, kBytes, 1), b = random_numbers(context, kBytes, 2);
  const Buffer c(Device::kGpu, kBytes);
  const float one = 1, zero = 0;
  const double seconds = best_seconds(context, 2, [&] {
    DUET_CUBLAS(cublasGemmEx(context.cublas(), CUBLAS_OP_N, CUBLAS_OP_N, kSize, kSize, kSize, &one,
                             a.data(), CUDA_R_32F, kSize, b.data(), CUDA_R_32F, kSize, &zero,
                             c.data(), CUDA_R_32F, kSize, CUBLAS_COMPUTE_32F_FAST_TF32,
                             CUBLAS_GEMM_DEFAULT));
  });
  return 2.0 * kSize * kSize * kSize / seconds;
}

}  // namespace

Ceilings measure_ceilings(Context& context) {
  return {.copy_bytes_per_second = copy_rate(context),
          .fp32_flops_per_second = multiply_add_rate(context),
          .tf32_flops_per_second = tf32_rate(context),
          .launch_seconds = best_seconds(context, 500, [&] {
            empty_kernel<<<132, 32, 0, context.stream()>>>();
            DUET_LAUNCHED();
          })};
}

}  // namespace duet::gpu
