// Batch normalisation by clusters, whose blocks share the channels of one and add their sums through
// each other's shared memory.
#pragma once

#include <cooperative_groups.h>

#include "device/device.h"
#include "device/launch.h"
#include "layers/batch_norm/batch_norm_kernels.cuh"

namespace duet::batch_norm {

inline constexpr int kMostBlocks = 8;  // of a cluster on every GPU that has them

/// Adds what the blocks of a cluster have, in their order: every thread gets the same bits. An
/// object serves one call, so that no block overwrites what another still reads.
template <class F, class T>
struct ClusterSum {
  T of_block[F::kChannels][32];

  template <class Combine>
  __device__ __forceinline__ void operator()(const Walk& walk, T (&values)[F::kChannels],
                                             Combine combine) {
#pragma unroll
    for (int k = 0; k < F::kChannels; ++k) {
      values[k] = block_combine(values[k], walk.lanes, combine);
    }
#if __CUDA_ARCH__ >= 900
    if (walk.splits == 1) return;
    const int lane = threadIdx.x % walk.lanes;
    // region cluster
    if (threadIdx.x < walk.lanes) {
#pragma unroll
      for (int k = 0; k < F::kChannels; ++k) of_block[k][lane] = values[k];
    }
    const auto cluster = cooperative_groups::this_cluster();
    cluster.sync();
#pragma unroll
    for (int k = 0; k < F::kChannels; ++k) {
      T all[kMostBlocks];  // read side by side
#pragma unroll
      for (int rank = 0; rank < kMostBlocks; ++rank) {
        if (rank < walk.splits) all[rank] = *cluster.map_shared_rank(&of_block[k][lane], rank);
      }
      values[k] = all[0];
#pragma unroll
      for (int rank = 1; rank < kMostBlocks; ++rank) {
        if (rank < walk.splits) values[k] = combine(values[k], all[rank]);
      }
    }
    // end cluster
#endif
  }
};

/// Behind the last sum and at the end: no block ends while another reads its shared memory.
__device__ __forceinline__ void done_reading(const Walk& walk) {
#if __CUDA_ARCH__ >= 900
  if (walk.splits > 1) cooperative_groups::this_cluster().barrier_arrive();
#endif
}
__device__ __forceinline__ void wait_for_readers(const Walk& walk) {
#if __CUDA_ARCH__ >= 900
  if (walk.splits > 1) cooperative_groups::this_cluster().barrier_wait();
#endif
}

/// REQUIRES: there is a GPU.
inline bool has_clusters() {
  return built_for_clusters() && gpu_attribute(cudaDevAttrComputeCapabilityMajor) >= 9;
}

/// Blocks of a cluster at most, here or, without a GPU, in this build.
inline int most_blocks() {
  return (gpu_available() ? has_clusters() : built_for_clusters()) ? kMostBlocks : 1;
}

/// Units that the threads of a block have side by side.
inline int units_at_once(const Walk& walk) { return kThreads / walk.lanes; }

/// As few blocks a cluster as keep all values where each keeps `units_of_block`: a sum over more
/// blocks takes longer than more loads of a thread.
inline Walk in_clusters(Walk walk, int units_of_block) {
  if (!has_clusters()) return walk;
  while (walk.splits < kMostBlocks && walk.units > walk.splits * units_of_block) walk.splits *= 2;
  return walk;
}

/// Vectors of V values that each thread keeps in the shared memory of its block, for itself alone:
/// they are copied there past the registers, so that all are on their way at once.
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
#if __CUDA_ARCH__ >= 800
    if constexpr (kBytes == 16) {
      // Past L1, and the first to leave L2: what has no place here is read again.
      uint64_t policy;
      asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
      asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(
                       static_cast<uint32_t>(__cvta_generic_to_shared(place(i)))),
                   "l"(from), "l"(policy)
                   : "memory");
      return;
    } else if constexpr (kBytes >= 4) {
      asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(
                       static_cast<uint32_t>(__cvta_generic_to_shared(place(i)))),
                   "l"(from), "n"(kBytes)
                   : "memory");
      return;
    }
#endif
    *place(i) = __ldg(reinterpret_cast<const Word*>(from));
  }
  static __device__ __forceinline__ void wait() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
  }
  /// The copies that the thread has queued since the call before become a group.
  static __device__ __forceinline__ void commit() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
  }
  /// For all groups but the last `pending`, or more of them.
  static __device__ __forceinline__ void wait_but(int pending) {
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
  static __device__ __forceinline__ Vector<float, F::V> get(int i) {
    return widened_word<Value, F::V>(*place(i));
  }
};

/// A multiprocessor's shared memory for the shelf of one block; the rest is for sums.
inline constexpr int kMostShelfBytes = 216 * 1024;

/// Of a vector of each thread of a block, of each of so many tensors.
inline int shelf_bytes_of_vector(const BatchNormProblem& problem, int tensors) {
  return kThreads * tensors * vector_length(problem) * static_cast<int>(size_of(problem.dtype));
}
/// Vectors of each of so many tensors that a thread has there at most.
inline int most_shelved(const BatchNormProblem& problem, int tensors) {
  return kMostShelfBytes / shelf_bytes_of_vector(problem, tensors);
}

/// What registers have no place for, which keep `kept` vectors a thread of each of so many `tensors`, on
/// shelves as far as they go. REQUIRES: `walk` is in_clusters().
inline Walk with_shelf(Walk walk, const BatchNormProblem& problem, int kept, int tensors) {
  if (walk.splits < kMostBlocks) return walk;
  const int vectors = ceil_div(walk.units, walk.splits * units_at_once(walk));
  walk.shelf = std::clamp(vectors - kept, 0, most_shelved(problem, tensors));
  walk.shelf_bytes = walk.shelf * shelf_bytes_of_vector(problem, tensors);
  return walk;
}

/// With walk.splits blocks a cluster.
template <class... Parameters>
void launch_clusters(const Walk& walk, cudaStream_t stream, void (*kernel)(Parameters...),
                     const std::type_identity_t<Parameters>&... arguments) {
  const auto groups = static_cast<unsigned>(walk.groups);
  const auto blocks = static_cast<unsigned>(walk.splits);
  const auto shared = static_cast<size_t>(walk.shelf_bytes);
  if (shared > 0) {
    DUET_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   walk.shelf_bytes));
  }
  duet::launch({.gridDim = {groups, blocks},
                .blockDim = kThreads,
                .dynamicSmemBytes = shared,
                .stream = stream},
               {walk.splits > 1 ? in_clusters_of(1, walk.splits) : cudaLaunchAttribute{},
                overlaps_primary()},
               kernel, arguments...);
}

}  // namespace duet::batch_norm
