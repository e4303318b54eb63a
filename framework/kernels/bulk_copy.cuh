// Bulk copies by Hopper's copy engine: no thread spends instructions or load-store bandwidth on them. Those from global to
// shared memory are announced on a barrier there; compiled for an older GPU its init() traps, and
// bulk_copies_unsupported() tells beforehand.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <optional>
#include <string>

#include "device/attribute.h"
#include "device/check.h"
#include "device/device.h"

namespace duet {

/// Why this GPU, or this build for it, cannot run `kernel`, which uses what is below, with `smem`
/// bytes of shared memory; nothing where there is no GPU to ask.
template <class Kernel>
std::optional<std::string> bulk_copies_unsupported(Kernel* kernel, size_t smem) {
  if (!gpu_available()) return {};
  cudaFuncAttributes attributes = {};
  DUET_CUDA(cudaFuncGetAttributes(&attributes, kernel));
  if (attributes.ptxVersion < 90) {
    return "copies in bulk, which takes a GPU of compute capability 9.0 and a build for it";
  }
  const int most = gpu_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  if (smem + attributes.sharedSizeBytes > static_cast<size_t>(most)) {
    return "takes " + std::to_string(smem / 1024) +
           " KiB of shared memory a block, and this GPU has " + std::to_string(most / 1024);
  }
  return {};
}

struct CopyBarrier {
  uint64_t state;

  __device__ __forceinline__ uint32_t address() const {
    return uint32_t(__cvta_generic_to_shared(this));
  }
  // By one thread, before a __syncthreads(). A phase ends with so many calls of expect() or arrive()
  // and all the bytes.
  __device__ __forceinline__ void init(int arrivals = 1) {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "mbarrier.init.shared::cta.b64 [%0], %1;\nfence.mbarrier_init.release.cluster;" ::"r"(
            address()),
        "r"(arrivals)
        : "memory");
#else
    __trap();
#endif
  }
  // By one thread, once a phase: the bytes that the copies of this phase will bring.
  __device__ __forceinline__ void expect(uint32_t bytes) {
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address()),
                 "r"(bytes)
                 : "memory");
#endif
  }
  // As expect(), where no bytes come.
  __device__ __forceinline__ void arrive() {
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address()) : "memory");
#endif
  }
  // By every reader: until phase number `phase` (0, 1, ...) is complete.
  __device__ __forceinline__ void wait(int phase) const {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "{\n.reg .pred done;\n"
        "again_%=:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again_%=;\n}" ::"r"(address()),
        "r"(phase & 1)
        : "memory");
#endif
  }
};

// By one thread, after expect(). Addresses and bytes are multiples of 16.
__device__ __forceinline__ void bulk_copy(float* shared, const float* global, uint32_t bytes,
                                          const CopyBarrier& barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(uint32_t(__cvta_generic_to_shared(shared))),
      "l"(global), "r"(bytes), "r"(barrier.address())
      : "memory");
#endif
}

/// Bytes from shared memory to global memory, by one thread; both addresses and `bytes` are multiples of 16. The copy reads what
/// others wrote before fence_async_proxy() and a __syncthreads().
__device__ __forceinline__ void bulk_store(void* global, const void* shared, uint32_t bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
      "cp.async.bulk.commit_group;" ::"l"(global),
      "r"(uint32_t(__cvta_generic_to_shared(shared))), "r"(bytes)
      : "memory");
#endif
}
/// What this thread wrote to shared memory, or saw there, comes before what the copy engine and matrix instructions that read
/// shared memory do behind the next barrier.
__device__ __forceinline__ void fence_async_proxy() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}
/// By the same thread: until its copies have read what they copy.
__device__ __forceinline__ void wait_for_bulk_stores() {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
#endif
}
/// Whether bulk_store() stores: it is in code for Hopper and later.
#if __CUDA_ARCH__ >= 900
#define DUET_BULK_STORES true
#else
#define DUET_BULK_STORES false
#endif

}  // namespace duet
