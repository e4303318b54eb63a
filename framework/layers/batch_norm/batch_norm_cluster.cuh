// Batch normalisation by clusters, whose blocks share the channels of one and add their sums through
// each other's shared memory.
#pragma once

#include <cooperative_groups.h>

#include "device/device.h"
#include "device/launch.h"
#include "layers/batch_norm/batch_norm_sums.cuh"

namespace duet::batch_norm {

inline constexpr int kMostBlocks = 8;  // of a cluster on every GPU that has them

/// Combines what the threads of a cluster have of their channels, always in the same order: every thread gets the
/// same bits. REQUIRES: the kernel calls it once, and the block then comes to wait_for_readers().
template <class F, class Combine>
__device__ __forceinline__ void cluster_combine(const Walk& walk, ChannelSums<F::kChannels>& values,
                                                Combine combine) {
  constexpr int kColumns = kColumnsOf<F>;
  __shared__ float2 of_all[kColumns];
  __shared__ float count_of_all;
  const int thread = static_cast<int>(threadIdx.x), columns = walk.lanes * F::kChannels;
  ChannelSums<1> sum = combine_columns<F>(walk, values, combine);
#if __CUDA_ARCH__ >= 900
  if (walk.splits > 1) {
    // region cluster
    __shared__ float2 of_block[kColumns];
    __shared__ float count_of_block;
    if (thread < columns) of_block[thread] = {sum.first[0], sum.second[0]};
    if (thread == 0) count_of_block = sum.count;
    const auto cluster = cooperative_groups::this_cluster();
    cluster.sync();
    if (thread < columns) {
      ChannelSums<1> all[kMostBlocks];  // read side by side
#pragma unroll
      for (int rank = 0; rank < kMostBlocks; ++rank) {
        if (rank >= walk.splits) break;
        const float2 two = *cluster.map_shared_rank(&of_block[thread], rank);
        all[rank] = {*cluster.map_shared_rank(&count_of_block, rank), {two.x}, {two.y}};
      }
      sum = all[0];
#pragma unroll
      for (int rank = 1; rank < kMostBlocks; ++rank) {
        if (rank < walk.splits) combine(sum, all[rank]);
      }
    }
    cluster.barrier_arrive();  // of wait_for_readers()
    // end cluster
  }
#endif
  if (thread < columns) of_all[thread] = {sum.first[0], sum.second[0]};
  if (thread == 0) count_of_all = sum.count;
  __syncthreads();
  const int first = thread % walk.lanes * F::kChannels;
  values.count = count_of_all;
#pragma unroll
  for (int k = 0; k < F::kChannels; ++k) {
    values.first[k] = of_all[first + k].x;
    values.second[k] = of_all[first + k].y;
  }
}

/// At the end: no block ends while another reads its shared memory.
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

/// Copies to the shelf come in steps of so many units, the last perhaps shorter: how many follow that which begins
/// at unit j.
template <int count>
__device__ __forceinline__ int steps_behind(int j, int units) {
  return (units - 1 - j) / count;
}

/// Of units from the j-th on the shelf, which have `places` each there: `parts` of them from `from`.
template <class F, int parts = 1, int places = 1, int from = 0>
struct ShelfBatch {
  int j;
  __device__ __forceinline__ Vector<float, F::V> operator[](int i) const {
    return Shelf<F>::get((j + i / parts) * places + i % parts + from);
  }
};

/// A multiprocessor's shared memory for the shelf of one block; the rest is for sums.
inline constexpr int kMostShelfBytes = 212 * 1024;

/// Vectors of v values of each of so many tensors that a thread has there at most.
inline int most_shelved(const BatchNormProblem& problem, int v, int tensors) {
  return kMostShelfBytes / (kThreads * tensors * v * static_cast<int>(size_of(problem.dtype)));
}

/// What registers have no place for, which keep `kept` vectors of v values a thread of each of so many `tensors`, on
/// shelves as far as they go. REQUIRES: `walk` is in_clusters().
inline Walk with_shelf(Walk walk, const BatchNormProblem& problem, int v, int kept, int tensors) {
  if (walk.splits < kMostBlocks) return walk;
  const int vectors = ceil_div(walk.units, walk.splits * units_at_once(walk));
  walk.shelf = std::clamp(vectors - kept, 0, most_shelved(problem, v, tensors));
  walk.shelf_bytes = walk.shelf * kThreads * tensors * v * static_cast<int>(size_of(problem.dtype));
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
