// Launches with an attribute that <<<>>> cannot give. Include only in files that are compiled with
// CUDA.
#pragma once

#include <type_traits>

#include "device/attribute.h"
#include "device/check.h"

namespace duet {

/// So many neighbouring blocks along x, or x times y, run at once and reach each other's shared
/// memory. Compute capability 9.0; up to 8 on every such GPU.
inline cudaLaunchAttribute in_clusters_of(int x, int y = 1) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = x;
  attribute.val.clusterDim.y = y;
  attribute.val.clusterDim.z = 1;
  return attribute;
}

/// True if all code of this build is for 9.0 and newer. In older code, which the driver may
/// translate for a newer GPU, wait_for_primary() is empty.
constexpr bool built_for_clusters() {
#ifdef __CUDA_ARCH_LIST__
  for (const int arch : {__CUDA_ARCH_LIST__}) {
    if (arch < 900) return false;
  }
#endif
  return true;
}

/// Programmatic dependent launch: this kernel, the secondary, starts before the one before it on
/// the stream, its primary, has ended, and waits for what that writes by wait_for_primary().
/// Nothing changes where the GPU, or a build for it, cannot (below 9.0).
inline cudaLaunchAttribute overlaps_primary() {
  static const bool possible =
      built_for_clusters() && gpu_attribute(cudaDevAttrComputeCapabilityMajor) >= 9;
  cudaLaunchAttribute attribute{};  // cudaLaunchAttributeIgnore
  if (possible) {
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
  }
  return attribute;
}

/// In a kernel launched with overlaps_primary(), by every thread that reads what the primary wrote,
/// and by at least one thread of a block. Where the compiler sees the reads, that memory must not
/// be const __restrict__: they might come earlier.
__device__ __forceinline__ void wait_for_primary() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

/// In the primary: its secondary may start once all blocks have come here or ended.
__device__ __forceinline__ void let_secondary_start() {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

/// `kernel` with all of `attributes`: launch(config, {in_clusters_of(2)}, kernel, arguments).
template <size_t count, class... Parameters>
void launch(cudaLaunchConfig_t config, cudaLaunchAttribute (&&attributes)[count],
            void (*kernel)(Parameters...), const std::type_identity_t<Parameters>&... arguments) {
  config.attrs = attributes;
  config.numAttrs = count;
  DUET_CUDA(cudaLaunchKernelEx(&config, kernel, arguments...));
}

struct LaunchShape {
  dim3 grid, block;
  size_t shared = 0;
  cudaStream_t stream = nullptr;
};

/// kernel<<<shape>>>(arguments...), overlapping its primary. REQUIRES: the kernel begins with
/// wait_for_primary(), or says where it waits.
template <class... Parameters>
void launch_following(const LaunchShape& shape, void (*kernel)(Parameters...),
                      const std::type_identity_t<Parameters>&... arguments) {
  launch({.gridDim = shape.grid,
          .blockDim = shape.block,
          .dynamicSmemBytes = shape.shared,
          .stream = shape.stream},
         {overlaps_primary()}, kernel, arguments...);
}

/// How many clusters of such a launch the GPU runs at once; 0 where it has none.
template <class... Parameters>
int clusters_at_once(cudaLaunchConfig_t config, int blocks, void (*kernel)(Parameters...)) {
  if (!built_for_clusters() || gpu_attribute(cudaDevAttrClusterLaunch) == 0) return 0;
  cudaLaunchAttribute attribute = in_clusters_of(blocks);
  config.attrs = &attribute;
  config.numAttrs = 1;
  int count = 0;
  DUET_CUDA(cudaOccupancyMaxActiveClusters(&count, kernel, &config));
  return count;
}

}  // namespace duet
