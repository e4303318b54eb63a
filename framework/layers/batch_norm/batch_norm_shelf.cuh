// Places in the shared memory of a block that each of its threads has for itself alone: what is kept there is copied past
// the registers, so that all of it is on its way at once, and no thread waits for another.
#pragma once

#include "layers/batch_norm/batch_norm_walk.cuh"

namespace duet::batch_norm {

/// Starts the copy of so many bytes to shared memory, which the thread that calls has after wait_for_fetches(). REQUIRES:
/// nothing writes `from` while the kernel runs.
template <int bytes>
__device__ __forceinline__ void fetch_async(void* to, const void* from) {
#if __CUDA_ARCH__ >= 800
  const auto place = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  if constexpr (bytes == 16) {
    // Past L1, and the first to leave L2: what has no place here is read again.
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(place),
                 "l"(from), "l"(policy)
                 : "memory");
    return;
  } else if constexpr (bytes >= 4) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(place), "l"(from), "n"(bytes)
                 : "memory");
    return;
  }
#endif
  *static_cast<WordOf<bytes>*>(to) = __ldg(static_cast<const WordOf<bytes>*>(from));
}
/// What the thread has fetched since the call before becomes a group.
__device__ __forceinline__ void commit_fetches() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
/// For all groups but the last `pending`, or more of them.
__device__ __forceinline__ void wait_for_fetches(int pending) {
#if __CUDA_ARCH__ >= 800
  switch (pending) {
    case 0:
      asm volatile("cp.async.wait_group 0;" ::: "memory");
      break;
    case 1:
      asm volatile("cp.async.wait_group 1;" ::: "memory");
      break;
    case 2:
      asm volatile("cp.async.wait_group 2;" ::: "memory");
      break;
    case 3:
      asm volatile("cp.async.wait_group 3;" ::: "memory");
      break;
    case 4:
      asm volatile("cp.async.wait_group 4;" ::: "memory");
      break;
    case 5:
      asm volatile("cp.async.wait_group 5;" ::: "memory");
      break;
    default:
      asm volatile("cp.async.wait_group 6;" ::: "memory");
      break;
  }
#endif
}

/// Vectors of V values, as many places of each thread as the launch has shared memory for.
template <class F>
struct Shelf {
  using Value = typename F::Value;
  static constexpr int kBytes = sizeof(Value) * F::V;
  using Word = WordOf<kBytes>;

  static __device__ __forceinline__ Word* place(int i) {
    extern __shared__ float4 shelf_of_block[];
    return reinterpret_cast<Word*>(shelf_of_block) + i * kThreads + threadIdx.x;
  }
  static __device__ __forceinline__ void fetch(int i, const Value* from) {
    fetch_async<kBytes>(place(i), from);
  }
  static __device__ __forceinline__ Vector<float, F::V> get(int i) {
    return widened_word<Value, F::V>(*place(i));
  }
};

}  // namespace duet::batch_norm
