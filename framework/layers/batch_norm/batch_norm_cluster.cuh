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

/// With walk.splits blocks a cluster.
template <class... Parameters>
void launch_clusters(const Walk& walk, cudaStream_t stream, void (*kernel)(Parameters...),
                     const std::type_identity_t<Parameters>&... arguments) {
  const auto groups = static_cast<unsigned>(walk.groups);
  const auto blocks = static_cast<unsigned>(walk.splits);
  duet::launch({.gridDim = {groups, blocks}, .blockDim = kThreads, .stream = stream},
               {walk.splits > 1 ? in_clusters_of(1, walk.splits) : cudaLaunchAttribute{},
                overlaps_primary()},
               kernel, arguments...);
}

}  // namespace duet::batch_norm
