// Winograd forward with pooling: the 2x2 output tile is the pooling window, transformed back,
// pooled and clipped in registers.
#pragma once

#include "layers/conv2d/packed_argmax.cuh"
#include "layers/conv2d/winograd.cuh"

namespace duet {

// Chunks of U, and of x where the images are small enough, arrive by bulk copy kStages - 1 chunks
// ahead; the barrier of a stage counts the bytes of both. Transforming the next chunk in the middle
// of multiplying the present one lets the warps of a scheduler cover for each other: at the end of
// a chunk all would transform at once.
inline constexpr int kForwardStages = 3, kForwardImages = 3;

// Can 8 channels of the images under 32 consecutive windows be copied whole? Else each thread loads
// its patches.
inline bool winograd_forward_staged(const Conv2dProblem& d) {
  return d.c % 4 == 0 && (d.p / 2) * (d.q / 2) >= 16 && d.h * d.w <= 196;
}
inline size_t winograd_forward_smem_bytes(const Conv2dProblem& d) {
  const size_t x_floats = winograd_forward_staged(d)
                              ? size_t(kForwardImages) * WinogradBlock<1>::kDepth * d.h * d.w
                              : 0;
  const size_t floats =
      kForwardStages * (WinogradBlock<1>::kChunkB + x_floats) + 2 * WinogradBlock<1>::kChunkA;
  return sizeof(float) *
         (floats > WinogradBlock<1>::kExchangeFloats ? floats : WinogradBlock<1>::kExchangeFloats);
}

// grid: (blocks of 32 windows, blocks of 64 filters)
template <bool kStaged>
__global__ void __launch_bounds__(256, 1)
    winograd_pooled_forward_kernel(const __grid_constant__ ConvGeometry g,
                                   const float* __restrict__ x, const float* __restrict__ u,
                                   const float* __restrict__ bias, float* __restrict__ y,
                                   uint32_t* __restrict__ argmax) {
  extern __shared__ __align__(128) float smem[];
  __shared__ CopyBarrier barriers[kForwardStages];
  using Block = WinogradBlock<1>;
  float* const chunks_b = smem;
  float* const chunks_a = smem + kForwardStages * Block::kChunkB;
  float* const chunks_x = chunks_a + 2 * Block::kChunkA;
  const int image_floats = Block::kDepth * g.pixels_in,
            stage_floats = kForwardImages * image_floats;

  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int first_filter = blockIdx.y * Block::kB;
  // This thread's window, both for loading patches (channel = warp of each chunk) and for the
  // outputs.
  const int tile = blockIdx.x * Block::kA + lane, tiles = g.d.n * g.windows;
  const bool live = tile < tiles;
  int n, window, wh, ww, first_image, last_image, rest;
  g.by_windows.divmod(live ? tile : 0, n, window);
  g.by_pool_w.divmod(window, wh, ww);
  g.by_windows.divmod(blockIdx.x * Block::kA, first_image, rest);
  g.by_windows.divmod(min(int(blockIdx.x + 1) * Block::kA, tiles) - 1, last_image, rest);
  WinogradPatch patch =
      WinogradPatch::at(kStaged ? (n - first_image) * image_floats : n * g.d.c * g.pixels_in,
                        2 * wh - g.d.pad_h, 2 * ww - g.d.pad_w, g.d.h, g.d.w);
  if (!live) patch = {0, 0};

  const int chunks = ceil_div(g.d.c, Block::kDepth);
  const float* u_block = u + size_t(blockIdx.y) * chunks * Block::kChunkB;
  auto copy = [&](int chunk) {  // by thread 0
    const int stage = chunk % kForwardStages, c = chunk * Block::kDepth;
    const uint32_t u_bytes = sizeof(float) * Block::kChunkB;
    const uint32_t x_bytes = sizeof(float) * min(Block::kDepth, g.d.c - c) * g.pixels_in;
    barriers[stage].expect(u_bytes + (kStaged ? (last_image - first_image + 1) * x_bytes : 0));
    bulk_copy(chunks_b + stage * Block::kChunkB, u_block + size_t(chunk) * Block::kChunkB, u_bytes,
              barriers[stage]);
    if constexpr (kStaged)
      for (int image = first_image; image <= last_image; ++image)
        bulk_copy(chunks_x + stage * stage_floats + (image - first_image) * image_floats,
                  x + (size_t(image) * g.d.c + c) * g.pixels_in, x_bytes, barriers[stage]);
  };
  float d[4][4];
  auto load = [&](int chunk) {
    const int c = chunk * Block::kDepth + warp;
    if (c < g.d.c) {
      if constexpr (kStaged) {
        patch.load<true>(chunks_x + chunk % kForwardStages * stage_floats, warp * g.pixels_in,
                         g.d.w, d);
      } else {
        patch.load<false>(x, c * g.pixels_in, g.d.w, d);
      }
    } else {
#pragma unroll
      for (int i = 0; i < 16; ++i) d[i / 4][i % 4] = 0.f;
    }
  };
  auto store = [&](int chunk) {
    winograd_input(d);
    float* at = chunks_a + (chunk & 1) * Block::kChunkA + warp * Block::kPitchA + lane;
#pragma unroll
    for (int i = 0; i < 16; ++i) at[i * Block::kA] = d[i / 4][i % 4];
  };
  if (threadIdx.x == 0)
    for (int stage = 0; stage < kForwardStages; ++stage) barriers[stage].init();
  __syncthreads();
  if (threadIdx.x == 0)
    for (int chunk = 0; chunk < min(chunks, kForwardStages - 1); ++chunk) copy(chunk);
  Block block;
  if constexpr (!kStaged) load(0);
  barriers[0].wait(0);
  if constexpr (kStaged) load(0);
  store(0);
  __syncthreads();
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const float* a = chunks_a + (chunk & 1) * Block::kChunkA;
    const float* b = chunks_b + chunk % kForwardStages * Block::kChunkB;
    const int next = chunk + 1;
    if (threadIdx.x == 0 && chunk + kForwardStages - 1 < chunks) copy(chunk + kForwardStages - 1);
    if (!kStaged && next < chunks) load(next);
    block.multiply<0, 4, Block::kPitchB>(a, b);
    if (next < chunks) {
      barriers[next % kForwardStages].wait(next / kForwardStages);
      if constexpr (kStaged) load(next);
      store(next);
    }
    block.multiply<4, 8, Block::kPitchB>(a, b);
    __syncthreads();
  }

  block.exchange(smem);
  __syncthreads();
  if (!live) return;
  uint32_t codes = 0;  // this thread: one window, eight filters
  const int k0 = first_filter + warp * 8;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float m[4][16];
    const float* at = smem + lane * Block::kExchangePitch + warp * 8 + half * 4;
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const float4 v = *reinterpret_cast<const float4*>(at + i * Block::kExchangePoint);
      m[0][i] = v.x, m[1][i] = v.y, m[2][i] = v.z, m[3][i] = v.w;
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int k = k0 + half * 4 + e;
      if (k >= g.d.k) break;
      float v[4];
      winograd_output(m[e], v);
      const float b = bias != nullptr ? __ldg(bias + k) : 0.f;
      const PooledValue pooled = pool_window(v[0] + b, v[1] + b, v[2] + b, v[3] + b);
      codes |= pooled.code << (half * 16 + e * 4);
      y[(size_t(n) * g.d.k + k) * g.windows + window] = pooled.value;
    }
  }
  if (k0 < g.d.k) argmax[(size_t(n) * argmax_groups(g.d.k) + k0 / 8) * g.windows + window] = codes;
}

}  // namespace duet
