#include <algorithm>

#include "core/storage.h"
#include "device/attribute.h"
#include "device/check.h"
#include "measure/examine/repeat_work.h"
#include "measure/examine/repeat_work_cpu.h"

namespace duet {
namespace {

constexpr int kThreads = 256;

int blocks_for(uint64_t count) {
  constexpr uint64_t kMostBlocks = 1024;
  return static_cast<int>(std::clamp<uint64_t>((count + kThreads - 1) / kThreads, 1, kMostBlocks));
}

template <class T>
__global__ void variant_kernel(T* to, const T* from, uint64_t count, const uint64_t* number) {
  const Variant variant(*number, count);
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    uint64_t j = i + variant.shift;
    if (j >= count) j -= count;
    if constexpr (std::is_integral_v<T>) {
      to[i] = from[j];
    } else {
      to[i] = T(static_cast<Accumulator<T>>(from[j]) * variant.factor);
    }
  }
}

__global__ void step_kernel(uint64_t* to, uint64_t from, const uint64_t* number) {
  *to = from + *number;
}

__global__ void count_differences_kernel(const uint32_t* a, const uint32_t* b, uint64_t bytes,
                                         unsigned long long* differences) {
  const uint64_t count = bytes / 4;
  unsigned long long different = 0;
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    different += a[i] != b[i];
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    bool same = true;
    for (uint64_t i = 4 * count; i < bytes; ++i) {
      same &= reinterpret_cast<const char*>(a)[i] == reinterpret_cast<const char*>(b)[i];
    }
    different += !same;
  }
  if (different) atomicAdd(differences, different);
}

__global__ void fill_shared_kernel(int words, uint32_t* sink) {
  extern __shared__ uint32_t memory[];
  for (int i = threadIdx.x; i < words; i += blockDim.x) memory[i] = 0xFFFFFFFFu;
  __syncthreads();
  // Never true, but the compiler cannot know; and long enough for a block to come to every SM.
  if (memory[(threadIdx.x * 37 + clock64()) % words] == 0) *sink = 1;
}

}  // namespace

void queue_variant(Context& context, const Tensor& to, const void* from, const uint64_t* number) {
  if (context.device() == Device::kCpu) return write_variant(to, from, number);
  const auto count = static_cast<uint64_t>(to.elements());
  visit_values(to.desc.dtype, [&](auto zero) {
    using T = decltype(zero);
    variant_kernel<<<blocks_for(count), kThreads, 0, context.stream()>>>(
        to.data<T>(), static_cast<const T*>(from), count, number);
  });
  DUET_LAUNCHED();
}

void queue_step(Context& context, uint64_t* to, uint64_t from, const uint64_t* number) {
  if (context.device() == Device::kCpu) {
    *to = from + *number;
    return;
  }
  step_kernel<<<1, 1, 0, context.stream()>>>(to, from, number);
  DUET_LAUNCHED();
}

void queue_count_differences(Context& context, const void* a, const void* b, size_t bytes,
                             uint64_t* count) {
  if (context.device() == Device::kCpu) return count_differences(a, b, bytes, count);
  count_differences_kernel<<<blocks_for(bytes / 4), kThreads, 0, context.stream()>>>(
      static_cast<const uint32_t*>(a), static_cast<const uint32_t*>(b), bytes,
      reinterpret_cast<unsigned long long*>(count));
  DUET_LAUNCHED();
}

// As many blocks as there are SMs, each with all the shared memory that a block can have.
void queue_fill_shared_memory(Context& context) {
  if (context.device() == Device::kCpu) return;
  const int bytes = gpu_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  const int blocks = gpu_attribute(cudaDevAttrMultiProcessorCount);
  DUET_CUDA(
      cudaFuncSetAttribute(fill_shared_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  fill_shared_kernel<<<blocks, 1024, static_cast<size_t>(bytes), context.stream()>>>(bytes / 4,
                                                                                     nullptr);
  DUET_LAUNCHED();
}

}  // namespace duet
