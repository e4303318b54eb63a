// Winograd backward_data behind a pooling: dy is unpooled on its way into the Winograd domain,
// where one element of a window is 9 of 16 points; the 4x4 patches of an image are summed in shared
// memory.
#pragma once

#include "layers/conv2d/packed_argmax.cuh"
#include "layers/conv2d/winograd.cuh"

namespace duet {

inline constexpr int kDataStages = 4;

constexpr size_t winograd_data_smem_bytes() {
  const size_t floats = kDataStages * WinogradBlock<2>::kChunkB + 2 * WinogradBlock<2>::kChunkA;
  return sizeof(float) *
         (floats > WinogradBlock<2>::kExchangeFloats ? floats : WinogradBlock<2>::kExchangeFloats);
}

// grid: (images, blocks of 32 channels)
static __global__ void __launch_bounds__(256, 1)
    winograd_pooled_backward_data_kernel(const __grid_constant__ ConvGeometry g,
                                         const float* __restrict__ dy,
                                         const uint32_t* __restrict__ argmax,
                                         const float* __restrict__ u, float* __restrict__ dx) {
  extern __shared__ __align__(128) float smem[];
  __shared__ CopyBarrier barriers[kDataStages];
  using Block = WinogradBlock<2>;
  float* const chunks_b = smem;
  float* const chunks_a = smem + kDataStages * Block::kChunkB;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int n = blockIdx.x, first_channel = blockIdx.y * Block::kB;
  const bool live = lane < g.windows;  // window = lane, filter = warp of each chunk
  const float* dy_at = dy + size_t(n) * g.d.k * g.windows + lane;
  const uint32_t* argmax_at = argmax + size_t(n) * argmax_groups(g.d.k) * g.windows + lane;

  const int chunks = ceil_div(g.d.k, Block::kDepth);
  const float* u_block = u + size_t(blockIdx.y) * chunks * Block::kChunkB;
  auto copy = [&](int chunk) {  // by thread 0
    const int stage = chunk % kDataStages;
    const uint32_t bytes = sizeof(float) * Block::kChunkB;
    barriers[stage].expect(bytes);
    bulk_copy(chunks_b + stage * Block::kChunkB, u_block + size_t(chunk) * Block::kChunkB, bytes,
              barriers[stage]);
  };
  float gradient;
  uint32_t word;
  auto load = [&](int chunk) {
    const int k = chunk * Block::kDepth + warp;
    const bool inside = live && k < g.d.k;
    gradient = inside ? __ldg(dy_at + size_t(k) * g.windows) : 0.f;
    word = inside ? __ldg(argmax_at + size_t(chunk) * g.windows) : ~0u;
  };
  auto store = [&](int chunk) {
    float e[16];
    winograd_unpooled_gradient(gradient, word >> 4 * warp & 15, e);
    float* at = chunks_a + (chunk & 1) * Block::kChunkA + warp * Block::kPitchA + lane;
#pragma unroll
    for (int i = 0; i < 16; ++i) at[i * Block::kA] = e[i];
  };
  if (threadIdx.x == 0)
    for (int stage = 0; stage < kDataStages; ++stage) barriers[stage].init();
  __syncthreads();
  if (threadIdx.x == 0)
    for (int chunk = 0; chunk < min(chunks, kDataStages - 1); ++chunk) copy(chunk);
  Block block;
  load(0);
  store(0);
  if (chunks > 1) load(1);
  __syncthreads();
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const float* a = chunks_a + (chunk & 1) * Block::kChunkA;
    const float* b = chunks_b + chunk % kDataStages * Block::kChunkB;
    if (threadIdx.x == 0 && chunk + kDataStages - 1 < chunks) copy(chunk + kDataStages - 1);
    barriers[chunk % kDataStages].wait(chunk / kDataStages);
    block.multiply<0, 2, Block::kPitchB>(a, b);
    if (chunk + 1 < chunks) store(chunk + 1);
    if (chunk + 2 < chunks) load(chunk + 2);
    block.multiply<2, 4, Block::kPitchB>(a, b);
    __syncthreads();
  }

  block.exchange(smem);
  __syncthreads();
  // Each (window, channel): add the groups, transform, leave the 4x4 patch where its first group's
  // points were.
#pragma unroll
  for (int i = 0; i < Block::kA * Block::kB / Block::kThreads; ++i) {
    const int pair = threadIdx.x + i * Block::kThreads;
    float* at = smem + pair / Block::kB * Block::kExchangePitch + pair % Block::kB;
    float m[16];
#pragma unroll
    for (int p = 0; p < 16; ++p)
      m[p] = at[p * Block::kExchangePoint] + at[p * Block::kExchangePoint + Block::kExchangeGroup];
    winograd_input_transposed(m);
#pragma unroll
    for (int p = 0; p < 16; ++p) at[p * Block::kExchangePoint] = m[p];
  }
  __syncthreads();
  // Each input position: the sum of the up to four patches over it.
  const int channels = min(Block::kB, g.d.c - first_channel);
  float* out = dx + (size_t(n) * g.d.c + first_channel) * g.pixels_in;
  for (int i = threadIdx.x; i < channels * g.pixels_in; i += Block::kThreads) {
    int c, pixel, h, w;
    g.by_pixels_in.divmod(i, c, pixel);
    g.by_w.divmod(pixel, h, w);
    h += g.d.pad_h, w += g.d.pad_w;
    float total = 0.f;
#pragma unroll
    for (int a = 0; a < 2; ++a)
#pragma unroll
      for (int b = 0; b < 2; ++b) {
        const int wh = h / 2 - a, ww = w / 2 - b;
        if (uint32_t(wh) < uint32_t(g.pool_h) && uint32_t(ww) < uint32_t(g.pool_w)) {
          const int point = (h % 2 + 2 * a) * 4 + w % 2 + 2 * b;
          total += smem[point * Block::kExchangePoint +
                        (wh * g.pool_w + ww) * Block::kExchangePitch + c];
        }
      }
    out[i] = total;
  }
}

}  // namespace duet
