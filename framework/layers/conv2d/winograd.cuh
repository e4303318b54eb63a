// Winograd F(2x2, 3x3) and its two transposes, float32: the parts that the three passes of a 3x3
// convolution share.
//
// A 2x2 tile of outputs needs a 4x4 patch d of inputs. With V = B'dB, U = GgG', both 4x4, the tile
// is A'(U.V)A, so a tile, a channel and a filter cost 16 multiplications, not 36. Summed over
// channels this is 16 matrix products, one a point:
//   forward          M[tile][k]  = sum_c    V[c][tile] U[c][k]     y  = A'MA
//   backward_data    Md[tile][c] = sum_k    E[k][tile] U[k][c]     dx = sum of the overlapping 4x4
//                                                                       patches B Md B'
//   backward_filter  Mf[k][c]    = sum_tile E[tile][k] V[tile][c]  dw = G'Mf G
// with E = A dy A' (' is the transpose). A block keeps all 16 points of a 32 x 64 product in
// registers, so only x, w, y and their gradients ever travel.
//
// Lavin & Gray, "Fast Algorithms for Convolutional Neural Networks", 2015.
#pragma once

#include "layers/conv2d/bulk_copy.cuh"
#include "layers/conv2d/conv2d_geometry.cuh"

namespace duet {

// d -> B'dB, in place.   B' = [1 0 -1 0; 0 1 1 0; 0 -1 1 0; 0 1 0 -1]
__device__ __forceinline__ void winograd_input(float (&d)[4][4]) {
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float a = d[0][j], b = d[1][j], c = d[2][j], e = d[3][j];
    d[0][j] = a - c, d[1][j] = b + c, d[2][j] = c - b, d[3][j] = b - e;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float a = d[i][0], b = d[i][1], c = d[i][2], e = d[i][3];
    d[i][0] = a - c, d[i][1] = b + c, d[i][2] = c - b, d[i][3] = b - e;
  }
}

// m -> A'mA.   A' = [1 1 1 0; 0 1 -1 -1]
__device__ __forceinline__ void winograd_output(const float (&m)[16], float (&y)[4]) {
  float t[2][4];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    t[0][j] = m[j] + m[4 + j] + m[8 + j];
    t[1][j] = m[4 + j] - m[8 + j] - m[12 + j];
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    y[2 * i] = t[i][0] + t[i][1] + t[i][2];
    y[2 * i + 1] = t[i][1] - t[i][2] - t[i][3];
  }
}

// The gradient of the 4x4 patch: m -> B m B', in place.
__device__ __forceinline__ void winograd_input_transposed(float (&m)[16]) {
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float a = m[j], b = m[4 + j], c = m[8 + j], e = m[12 + j];
    m[j] = a, m[4 + j] = b - c + e, m[8 + j] = b + c - a, m[12 + j] = -e;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float a = m[4 * i], b = m[4 * i + 1], c = m[4 * i + 2], e = m[4 * i + 3];
    m[4 * i] = a, m[4 * i + 1] = b - c + e, m[4 * i + 2] = b + c - a, m[4 * i + 3] = -e;
  }
}

// The gradient of the 3x3 filter: m -> G'mG.   G' = [1 .5 .5 0; 0 .5 -.5 0; 0 .5 .5 1]
__device__ __forceinline__ void winograd_filter_transposed(const float (&m)[16], float (&dw)[9]) {
  float t[3][4];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float sum = 0.5f * (m[4 + j] + m[8 + j]);
    t[0][j] = m[j] + sum, t[1][j] = 0.5f * (m[4 + j] - m[8 + j]), t[2][j] = sum + m[12 + j];
  }
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    const float sum = 0.5f * (t[i][1] + t[i][2]);
    dw[3 * i] = t[i][0] + sum, dw[3 * i + 1] = 0.5f * (t[i][1] - t[i][2]),
           dw[3 * i + 2] = sum + t[i][3];
  }
}

// A (4x2) times one unit gradient at `code` (2x2 position, or dead) times A': value of point (i,
// j). Columns of A: (1, 1, 1, 0) for the upper or left element, (0, 1, -1, -1) for the other.
__device__ __forceinline__ void winograd_unpooled_gradient(float dy, uint32_t code,
                                                           float (&e)[16]) {
  const float v = code < 4 ? dy : 0.f;
  const bool low = code & 2, right = code & 1;
  const float row[4] = {low ? 0.f : v, v, low ? -v : v, low ? -v : 0.f};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    e[4 * i] = right ? 0.f : row[i];
    e[4 * i + 1] = row[i];
    e[4 * i + 2] = right ? -row[i] : row[i];
    e[4 * i + 3] = right ? -row[i] : 0.f;
  }
}

// U[column block][depth][point][column] from filters, a block being kBlockColumns columns wide:
// (column, depth) = (k, c) forward and (c, k) backward_data; zero beyond the real sizes. A chunk of
// depths of one block is then one run of memory.
template <int kBlockColumns>
__global__ void __launch_bounds__(128)
    winograd_filter_kernel(const float* __restrict__ w, int columns, int depth, int depth_padded,
                           int column_stride, int depth_stride, float* __restrict__ u) {
  const int a = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;
  if (a >= round_up(columns, kBlockColumns)) return;
  float g[3][3] = {};
  if (a < columns && b < depth) {
    const float* at = w + size_t(a) * column_stride + size_t(b) * depth_stride;
#pragma unroll
    for (int i = 0; i < 9; ++i) g[i / 3][i % 3] = __ldg(at + i);
  }
  float t[4][3];
#pragma unroll
  for (int j = 0; j < 3; ++j) {
    const float even = 0.5f * (g[0][j] + g[2][j]), odd = 0.5f * g[1][j];
    t[0][j] = g[0][j], t[1][j] = even + odd, t[2][j] = even - odd, t[3][j] = g[2][j];
  }
  float* out =
      u + (size_t(a / kBlockColumns) * depth_padded + b) * 16 * kBlockColumns + a % kBlockColumns;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float even = 0.5f * (t[i][0] + t[i][2]), odd = 0.5f * t[i][1];
    out[(4 * i) * kBlockColumns] = t[i][0];
    out[(4 * i + 1) * kBlockColumns] = even + odd;
    out[(4 * i + 2) * kBlockColumns] = even - odd;
    out[(4 * i + 3) * kBlockColumns] = t[i][2];
  }
}

/// Transforms the filters into u, of columns x depth rounded up to whole blocks and chunks.
template <int kBlockColumns>
void launch_winograd_filter(const float* w, int columns, int depth, int depth_padded,
                            int column_stride, int depth_stride, float* u, cudaStream_t stream) {
  constexpr int kThreads = 128;
  const dim3 grid(ceil_div(round_up(columns, kBlockColumns), kThreads), depth_padded);
  winograd_filter_kernel<kBlockColumns><<<grid, kThreads, 0, stream>>>(
      w, columns, depth, depth_padded, column_stride, depth_stride, u);
  DUET_LAUNCHED();
}

// 16 products of 32 x kB, 8 deep at a time, by 256 threads with 8 x 16 accumulators each: eight
// warps are few, but a smaller tile a thread would load more than one float from shared memory for
// four FFMAs, which is what the SM can feed. With kGroups = 2 each half of the block takes half of
// every 8-deep chunk; the halves are added in the exchange. Chunks in shared memory: A
// [depth][point][32] (pitch kPitchA), B [depth][point][kB] (pitch given).
template <int groups>
struct WinogradBlock {
  static constexpr int kGroups = groups, kThreads = 256, kDepth = 8, kA = 32, kB = 64 / groups;
  // Floats a depth; the four extra let a warp store 8 depths x 4 rows to 32 different banks.
  static constexpr int kPitchA = 16 * kA + 4, kPitchB = 16 * kB, kPaddedPitchB = kPitchB + 4;
  static constexpr int kChunkA = kDepth * kPitchA, kChunkB = kDepth * kPitchB,
                       kPaddedChunkB = kDepth * kPaddedPitchB;
  // The exchange: every point of every product in shared memory, [group][point][32][kB + 4].
  static constexpr int kExchangePitch = kB + 4, kExchangePoint = kA * kExchangePitch,
                       kExchangeGroup = 16 * kExchangePoint;
  static constexpr int kExchangeFloats = groups * kExchangeGroup;
  static constexpr int kThreadsX = kB / 16, kThreadsPerPoint = 4 * kThreadsX;

  float acc[8][16];
  int group, point, ty, tx;

  __device__ __forceinline__ WinogradBlock() {
    const int t = threadIdx.x % (kThreads / groups);
    group = threadIdx.x / (kThreads / groups);
    point = t / kThreadsPerPoint;
    ty = t % kThreadsPerPoint / kThreadsX;
    tx = t % kThreadsX;
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
      for (int j = 0; j < 16; ++j) acc[i][j] = 0.f;
  }
  // Depths [first, last) of this thread's group in one chunk.
  template <int first, int last, int pitch_b>
  __device__ __forceinline__ void multiply(const float* chunk_a, const float* chunk_b) {
    const float* a = chunk_a + group * (kDepth / groups) * kPitchA + point * kA + ty * 4;
    const float* b = chunk_b + group * (kDepth / groups) * pitch_b + point * kB + tx * 4;
#pragma unroll
    for (int d = first; d < last; ++d) {
      float fa[8], fb[16];
#pragma unroll
      for (int i = 0; i < 8; i += 4)
        *reinterpret_cast<float4*>(&fa[i]) =
            *reinterpret_cast<const float4*>(a + d * kPitchA + i / 4 * 16);
#pragma unroll
      for (int j = 0; j < 16; j += 4)
        *reinterpret_cast<float4*>(&fb[j]) =
            *reinterpret_cast<const float4*>(b + d * pitch_b + j / 4 * (kB / 4));
#pragma unroll
      for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 16; ++j) acc[i][j] = fmaf(fa[i], fb[j], acc[i][j]);
    }
  }
  // All accumulators to shared memory. The caller synchronises before and after.
  __device__ __forceinline__ void exchange(float* smem) const {
    float* at = smem + group * kExchangeGroup + point * kExchangePoint + tx * 4;
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
      for (int j = 0; j < 16; j += 4)
        *reinterpret_cast<float4*>(at + (i / 4 * 16 + ty * 4 + i % 4) * kExchangePitch +
                                   j / 4 * (kB / 4)) =
            make_float4(acc[i][j], acc[i][j + 1], acc[i][j + 2], acc[i][j + 3]);
  }
};

// Where a tile's 4x4 patch lies in x, and which of its elements are inside the image (bit 4*i + j).
struct WinogradPatch {
  int base;
  uint32_t inside;

  __device__ __forceinline__ static WinogradPatch at(int image_offset, int h, int w, int height,
                                                     int width) {
    uint32_t rows = 0, cols = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      rows |= uint32_t(h + i) < uint32_t(height) ? 0xfu << 4 * i : 0u;
      cols |= uint32_t(w + i) < uint32_t(width) ? 0x1111u << i : 0u;
    }
    return {image_offset + h * width + w, rows & cols};
  }
  // kShared: `from` is shared memory, so a plain load; else the read-only path.
  template <bool kShared>
  __device__ __forceinline__ void load(const float* x, int channel_offset, int width,
                                       float (&d)[4][4]) const {
    const float* from = x + (base + channel_offset);
    auto read = [](const float* at) { return kShared ? *at : __ldg(at); };
    if (inside == 0xffffu) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) d[i][j] = read(from + i * width + j);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          d[i][j] = inside >> (4 * i + j) & 1 ? read(from + i * width + j) : 0.f;
    }
  }
};

/// Lets `kernel` have more than the default 48 KiB of shared memory; once, before its first launch.
template <class Kernel>
void allow_smem(Kernel* kernel, size_t bytes) {
  DUET_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(bytes)));
}

}  // namespace duet
