// Copies of boxes of a tensor to shared memory by Hopper's copy engine (TMA; PTX ISA,
// "cp.async.bulk.tensor"): it knows the tensor's sizes, so that what lies outside becomes zeros and no
// thread computes an address.
#pragma once

#include <cuda.h>

#include <array>

#include "core/bfloat16.h"
#include "core/error.h"
#include "kernels/bulk_copy.cuh"

namespace duet {

/// An axis of a tensor: so many elements, `pitch` elements apart; a box takes `box` of them, `step`
/// apart (1 to 8).
struct TensorAxis {
  int64_t size, pitch;
  int box = 1, step = 1;
};
inline constexpr TensorAxis kNoAxis{1, 8};

/// The tensor at `from` as copy_box() takes it. The first axis has pitch 1, and its box is 64
/// elements: one row of 128 bytes in shared memory, whose pieces of 16 bytes are swizzled as
/// wgmma.cuh reads them; piece p of row r lies at p ^ (r % 8). REQUIRES: `from` and the other pitches
/// are multiples of 16 bytes.
inline CUtensorMap tensor_map(const bfloat16* from, const std::array<TensorAxis, 4>& axes) {
  static const auto encode = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found{};
#if CUDART_VERSION >= 12050
    DUET_CUDA(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                               cudaEnableDefault, &found));
#else
    DUET_CUDA(
        cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &found));
#endif
    if (function == nullptr)
      throw UnsupportedError("the driver has no cuTensorMapEncodeTiled; update it");
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
  }();
  cuuint64_t sizes[4], pitches[3];
  cuuint32_t boxes[4], steps[4];
  for (int i = 0; i < 4; ++i) {
    sizes[i] = axes[i].size;
    if (i > 0) pitches[i - 1] = axes[i].pitch * sizeof(bfloat16);
    boxes[i] = (axes[i].box - 1) * axes[i].step + 1;
    steps[i] = axes[i].step;
  }
  CUtensorMap map;
  const CUresult result =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, const_cast<bfloat16*>(from), sizes, pitches,
             boxes, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    throw UnsupportedError("the driver refuses a tensor map (" + std::to_string(result) + ")");
  }
  return map;
}

// By one thread, after expect() of the box's bytes: the box whose first element is at (i, j, k, l), which
// may lie outside. `shared` is a multiple of 1024 bytes.
__device__ __forceinline__ void copy_box(void* shared, const CUtensorMap& map, int i, int j, int k,
                                         int l, const CopyBarrier& barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(uint32_t(__cvta_generic_to_shared(shared))),
      "l"(&map), "r"(i), "r"(j), "r"(k), "r"(l), "r"(barrier.address())
      : "memory");
#endif
}

}  // namespace duet
