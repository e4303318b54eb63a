// Copies of boxes of a tensor to shared memory by Hopper's copy engine (TMA; PTX ISA,
// "cp.async.bulk.tensor"): it knows the tensor's sizes, so that what lies outside becomes zeros and no
// thread computes an address.
#pragma once

#include <cuda.h>

#include <array>
#include <string>
#include <type_traits>

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

namespace tensor_copy {

/// cuTensorMapEncode... of the driver, which is not linked.
template <class Function>
Function* encoder(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
#if CUDART_VERSION >= 12050
  DUET_CUDA(cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found));
#else
  DUET_CUDA(cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &found));
#endif
  if (function == nullptr)
    throw UnsupportedError("the driver has no " + std::string(name) + "; update it");
  return reinterpret_cast<Function*>(function);
}

inline void require(CUresult result) {
  if (result != CUDA_SUCCESS) {
    throw UnsupportedError("the driver refuses a tensor map (" + std::to_string(result) + ")");
  }
}

template <class T>
constexpr CUtensorMapDataType data_type() {
  return std::is_same_v<T, float> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32
                                  : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
}

}  // namespace tensor_copy

/// The tensor of bfloat16 or float at `from` as copy_box() takes it. The first axis has pitch 1, and its
/// box is one row of 128 bytes, or 64, in shared memory, whose pieces of 16 bytes are swizzled as
/// wgmma.cuh reads them; piece p of row r lies at p ^ (r % 8), or p ^ (r / 2 % 4). REQUIRES: `from` and the other pitches
/// are multiples of 16 bytes.
template <class T>
CUtensorMap tensor_map(const T* from, const std::array<TensorAxis, 4>& axes) {
  static const auto encode =
      tensor_copy::encoder<decltype(cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
  cuuint64_t sizes[4], pitches[3];
  cuuint32_t boxes[4], steps[4];
  for (int i = 0; i < 4; ++i) {
    sizes[i] = axes[i].size;
    if (i > 0) pitches[i - 1] = axes[i].pitch * sizeof(T);
    boxes[i] = (axes[i].box - 1) * axes[i].step + 1;
    steps[i] = axes[i].step;
  }
  const auto swizzle =
      axes[0].box * sizeof(T) == 64 ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_128B;
  CUtensorMap map;
  tensor_copy::require(encode(&map, tensor_copy::data_type<T>(), 4, const_cast<T*>(from), sizes,
                              pitches, boxes, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
                              CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                              CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  return map;
}

inline constexpr int kMostPositions = 1024;

/// Images [n][height][width][channels] at `from` as copy_positions() takes them: each with rows and
/// columns of zeros, `before` above and left of it, and `after` (0 and more) below and right of it.
/// REQUIRES: `from` and `channels` are multiples of 16 bytes, and at most kMostPositions.
template <class T>
CUtensorMap position_map(const T* from, int n, int height, int width, int channels,
                         std::array<int, 2> before, std::array<int, 2> after, int positions) {
  static const auto encode =
      tensor_copy::encoder<decltype(cuTensorMapEncodeIm2col)>("cuTensorMapEncodeIm2col");
  const cuuint64_t sizes[] = {cuuint64_t(channels), cuuint64_t(width), cuuint64_t(height),
                              cuuint64_t(n)};
  const cuuint64_t row = cuuint64_t(width) * channels * sizeof(T);
  const cuuint64_t pitches[] = {channels * sizeof(T), row, row * height};
  const int lower[] = {-before[1], -before[0]}, upper[] = {after[1], after[0]};
  const cuuint32_t steps[] = {1, 1, 1, 1};
  CUtensorMap map;
  tensor_copy::require(encode(
      &map, tensor_copy::data_type<T>(), 4, const_cast<T*>(from), sizes, pitches, lower, upper,
      128 / sizeof(T), positions, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
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

// As copy_box(): 128 bytes of channels, from `channel` on, of the positions of a position_map() that follow each
// other from (n, row, column) on, through rows and images and their zeros; rows and columns count from
// `-before` on.
__device__ __forceinline__ void copy_positions(void* shared, const CUtensorMap& map, int channel,
                                               int column, int row, int n,
                                               const CopyBarrier& barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};" ::"r"(
          uint32_t(__cvta_generic_to_shared(shared))),
      "l"(&map), "r"(channel), "r"(column), "r"(row), "r"(n), "r"(barrier.address()),
      "h"(uint16_t{0}), "h"(uint16_t{0})
      : "memory");
#endif
}

}  // namespace duet
