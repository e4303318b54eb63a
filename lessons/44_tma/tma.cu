// Lesson 44: TMA: the copy engine brings a box of a tensor to shared memory, zeros where it lies outside.
#include <cuda.h>

#include "../lesson.h"

// region constants
constexpr int kHeight = 4000, kWidth = 6000;  // y = sum of the four neighbours - 4 x; outside is 0
constexpr int kTileH = 16, kTileW = 64;       // of y, for one block of 256 threads
constexpr int kBoxH = kTileH + 2, kBoxW = kTileW + 8;  // of x: rows of whole 16 bytes
// end constants

// region barrier
/// A barrier in shared memory that counts arriving bytes (PTX ISA, "mbarrier").
struct Barrier {
  uint64_t state;
  __device__ uint32_t address() const { return uint32_t(__cvta_generic_to_shared(this)); }
  __device__ void init() {
    asm volatile(
        "mbarrier.init.shared::cta.b64 [%0], 1;\n"
        "fence.mbarrier_init.release.cluster;" ::"r"(address())
        : "memory");
  }
  __device__ void expect(uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address()),
                 "r"(bytes)
                 : "memory");
  }
  __device__ void wait() const {  // for its first phase
    asm volatile(
        "{\n.reg .pred done;\n"
        "again_%=:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n"
        "@!done bra again_%=;\n}" ::"r"(address())
        : "memory");
  }
};
// end barrier

// region kernel
__global__ void tma_kernel(const __grid_constant__ CUtensorMap map, float* y) {
  __shared__ alignas(128) float box[kBoxH][kBoxW];
  __shared__ Barrier barrier;
  const int row = blockIdx.y * kTileH, column = blockIdx.x * kTileW;
  if (threadIdx.x == 0) barrier.init();
  __syncthreads();
  if (threadIdx.x == 0) {  // one thread asks; nobody computes addresses
    barrier.expect(sizeof box);
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%2, %3}], [%4];" ::"r"(uint32_t(__cvta_generic_to_shared(box))),
        "l"(&map), "r"(column - 4), "r"(row - 1), "r"(barrier.address())
        : "memory");
  }
  barrier.wait();
  for (int i = threadIdx.x; i < kTileH * kTileW; i += blockDim.x) {
    const int r = i / kTileW + 1, c = i % kTileW + 4;
    if (row + r - 1 >= kHeight || column + c - 4 >= kWidth) continue;
    y[size_t(row + r - 1) * kWidth + column + c - 4] =
        box[r - 1][c] + box[r + 1][c] + box[r][c - 1] + box[r][c + 1] - 4 * box[r][c];
  }
}
// end kernel

/// The same from global memory, with a test for every neighbour.
__global__ void direct_kernel(const float* x, float* y) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x,
            row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= kHeight || column >= kWidth) return;
  const float* at = x + size_t(row) * kWidth + column;
  const float above = row > 0 ? at[-kWidth] : 0, below = row + 1 < kHeight ? at[kWidth] : 0;
  const float left = column > 0 ? at[-1] : 0, right = column + 1 < kWidth ? at[1] : 0;
  y[size_t(row) * kWidth + column] = above + below + left + right - 4 * *at;
}

// region map
/// The driver's function that describes a tensor to the copy engine.
decltype(&cuTensorMapEncodeTiled) find_encode() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
#if CUDART_VERSION >= 12050
  CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                         cudaEnableDefault, &found));
#else
  CHECK(cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &found));
#endif
  return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
}
/// `width` floats a row, rows `pitch` bytes apart. The innermost size comes first.
CUresult encode(CUtensorMap* map, const float* x, cuuint64_t width, cuuint64_t height,
                cuuint64_t pitch) {
  static const auto function = find_encode();
  const cuuint64_t sizes[] = {width, height}, pitches[] = {pitch};
  const cuuint32_t box[] = {kBoxW, kBoxH}, steps[] = {1, 1};
  return function(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, const_cast<float*>(x), sizes, pitches,
                  box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                  CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}
// end map

std::vector<double> plain(const std::vector<float>& x) {
  std::vector<double> y;
  const auto at = [&](int row, int column) {
    const bool inside = row >= 0 && row < kHeight && column >= 0 && column < kWidth;
    return inside ? double(x[size_t(row) * kWidth + column]) : 0.0;
  };
  for (int r = 0; r < kHeight; ++r) {
    for (int c = 0; c < kWidth; ++c) {
      y.push_back(at(r - 1, c) + at(r + 1, c) + at(r, c - 1) + at(r, c + 1) - 4 * at(r, c));
    }
  }
  return y;
}

void teach() {
  const auto x = lesson::random_values(size_t(kHeight) * kWidth, 1);
  const std::vector<double> expected = plain(x);
  const lesson::Array<float> xs(x), by_tma(x.size()), direct(x.size());
  // region run
  CUtensorMap map;
  CHECK(encode(&map, xs.data(), kWidth, kHeight, kWidth * sizeof(float)));
  const dim3 tiles((kWidth + kTileW - 1) / kTileW, (kHeight + kTileH - 1) / kTileH);
  const double tma_us = lesson::microseconds([&] {
    tma_kernel<<<tiles, 256>>>(map, by_tma.data());
    CHECK(cudaGetLastError());
  });
  lesson::compare("by TMA", by_tma.host(), expected, 1e-5);
  const dim3 block(64, 4), grid((kWidth + 63) / 64, (kHeight + 3) / 4);
  const double direct_us = lesson::microseconds([&] {
    direct_kernel<<<grid, block>>>(xs.data(), direct.data());
    CHECK(cudaGetLastError());
  });
  lesson::compare("from global memory", direct.host(), expected, 1e-5);
  const double gigabytes = 2e-9 * static_cast<double>(xs.bytes());
  std::printf("by TMA %.0f us (%.0f GB/s), from global memory %.0f us (%.0f GB/s)\n", tma_us,
              1e6 * gigabytes / tma_us, direct_us, 1e6 * gigabytes / direct_us);
  // end run

  // region wrong
  // Rows of 1001 floats are 4004 bytes apart, which is no multiple of 16.
  SHOULD_FAIL(encode(&map, xs.data(), 1001, 100, 1001 * sizeof(float)), CUDA_ERROR_INVALID_VALUE);
  // end wrong
}

int main() {
  return lesson::run("Lesson 44: TMA",
                     "Brings tiles with their borders to shared memory by the copy engine, and "
                     "compares with loads that test every neighbour.",
                     teach, {9, 0, "the copy engine for tensors came with Hopper"});
}
