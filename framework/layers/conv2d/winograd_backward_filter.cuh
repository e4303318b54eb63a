// Winograd backward_filter: dy and x meet in the Winograd domain; the sum over tiles is split.
#pragma once

#include "device/launch.h"
#include "layers/conv2d/winograd_block.cuh"
#include "layers/conv2d/winograd_gradients.cuh"

namespace duet {

// Can 64 channels of two whole images stay in shared memory? Else each thread loads its patches.
inline bool winograd_filter_staged(const WinogradGeometry& g) {
  return g.d.c % 64 == 0 && g.tiles >= 8 && g.pixels_in <= 196;
}
template <class Block>
size_t winograd_filter_smem_bytes(const WinogradGeometry& g) {
  const size_t x_floats = winograd_filter_staged(g) ? size_t(2) * Block::kB * g.pixels_in : 0;
  const size_t floats = 2 * (Block::kChunkA + Block::kChunkB) + x_floats;
  return sizeof(float) * (floats > Block::kExchangeFloats ? floats : Block::kExchangeFloats);
}

// grid: (blocks of 64 channels, blocks of 32 filters, splits of the tiles)
// partial[split] = dw [k][c][3][3], then dbias [k]; `stride` floats apart.
template <class Block, bool kStaged, class Gradient>
__global__ void __launch_bounds__(Block::kThreads, 1)
    winograd_backward_filter_kernel(const __grid_constant__ WinogradGeometry g,
                                    const float* __restrict__ x,
                                    const __grid_constant__ Gradient dy, int tiles_per_split,
                                    size_t stride, float* __restrict__ partial) {
  wait_for_primary();
  extern __shared__ __align__(128) float smem[];
  __shared__ CopyBarrier barriers[2];
  __shared__ float bias_sums[Block::kThreads / 8];
  float* const chunks_b = smem;
  float* const chunks_a = smem + 2 * Block::kChunkB;
  float* const slabs = chunks_a + 2 * Block::kChunkA;  // two images
  const int slab_floats = Block::kB * g.pixels_in;
  // Loading: tile = depth of each chunk; of 256 threads one filter and two channels, of 512 one channel and
  // one filter of every second chunk.
  constexpr int kRows = Block::kThreads / 8, kChannels = Block::kB / kRows;
  const int depth = threadIdx.x % 8, row = threadIdx.x / 8;
  const int first_channel = blockIdx.x * Block::kB, first_filter = blockIdx.y * Block::kA,
            split = blockIdx.z;
  const int begin = split * tiles_per_split, end = min(g.total_tiles, begin + tiles_per_split);
  const int k = first_filter + row % Block::kA;

  const int chunks = ceil_div(end - begin, Block::kDepth);
  int first_image, last_image, unused;
  g.by_tiles.divmod(begin, first_image, unused);
  g.by_tiles.divmod(end - 1, last_image, unused);
  int next_image = first_image;  // to be copied; thread 0
  // Before chunk is transformed: images up to the one after its first are on their way. The slab of
  // image i is free once a chunk starts in image i - 1 or later, for then all chunks with tiles of
  // image i - 2 are transformed.
  auto copy_images = [&](int chunk) {
    if (!kStaged || threadIdx.x != 0) return;
    int image, rest;
    g.by_tiles.divmod(begin + chunk * Block::kDepth, image, rest);
    for (; next_image <= min(last_image, image + 1); ++next_image) {
      const int slab = (next_image - first_image) & 1;
      const uint32_t bytes = sizeof(float) * slab_floats;
      barriers[slab].expect(bytes);
      bulk_copy(slabs + slab * slab_floats,
                x + (size_t(next_image) * g.d.c + first_channel) * g.pixels_in, bytes,
                barriers[slab]);
    }
  };
  WinogradPatch patch{0, 0};
  float d[16], bias_sum = 0.f;
  typename Gradient::Tile gradient;
  int image = 0;
  auto locate = [&](int chunk) {
    const int tile = begin + chunk * Block::kDepth + depth;
    patch = {0, 0};
    image = last_image - first_image;  // for a depth past the end, whose wait must not be for a
                                       // slab long since reused
    if (tile < end) {
      const WinogradTile t = WinogradTile::at(g, tile);
      image = t.n - first_image;
      const int offset =
          kStaged ? (image & 1) * slab_floats : (t.n * g.d.c + first_channel) * g.pixels_in;
      patch =
          WinogradPatch::at(offset, 2 * t.row - g.d.pad_h, 2 * t.column - g.d.pad_w, g.d.h, g.d.w);
    }
  };
  auto load_gradient = [&](int chunk) {
    const int tile = begin + chunk * Block::kDepth + depth;
    gradient = {};
    if (tile < end && k < g.d.k) gradient = dy.load(g, WinogradTile::at(g, tile), k);
  };
  auto load = [&](int half) {
    const int c = row + half * kRows;
    const WinogradPatch there{patch.base, first_channel + c < g.d.c ? patch.inside : 0};
    there.load<kStaged>(kStaged ? slabs : x, c * g.pixels_in, g.d.w, d);
  };
  auto store_input = [&](int chunk, int half) {
    winograd_input(d);
    store_b<Block>(chunks_b + (chunk & 1) * Block::kChunkB, depth, row + half * kRows, d);
  };
  auto store_gradient = [&](int chunk) {
    float e[16];
    gradient.transform(k, e);
    bias_sum += gradient.sum(k);
    store_a<Block>(chunks_a + (chunk & 1) * Block::kChunkA, depth, row % Block::kA, e);
  };
  if (kStaged && threadIdx.x == 0) {
    barriers[0].init();
    barriers[1].init();
  }
  __syncthreads();
  copy_images(0);
  Block block;
  locate(0);
  load_gradient(Block::first_prepared());
  if (kStaged) barriers[image & 1].wait(image / 2);
#pragma unroll
  for (int half = 0; half < kChannels; ++half) {
    load(half);
    store_input(0, half);
  }
  if (Block::prepares(0)) {
    store_gradient(0);
    load_gradient(Block::kTurns);
  }
  __syncthreads();
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const float* a = chunks_a + (chunk & 1) * Block::kChunkA;
    const float* b = chunks_b + (chunk & 1) * Block::kChunkB;
    // Of 256 threads there is no branch from the wait on, so that the compiler mixes the transforms with the
    // products; what is behind the last chunk is zero.
    copy_images(chunk + 1);
    locate(chunk + 1);
    if constexpr (kStaged) barriers[image & 1].wait(image / 2);
    load(0);
    block.template multiply<0, 3>(a, b);
    store_input(chunk + 1, 0);
    if constexpr (kChannels > 1) load(1);
    block.template multiply<1, 3>(a, b);
    if constexpr (kChannels > 1) store_input(chunk + 1, 1);
    if (Block::prepares(chunk + 1)) {
      store_gradient(chunk + 1);
      load_gradient(chunk + 1 + Block::kTurns);
    }
    block.template multiply<2, 3>(a, b);
    __syncthreads();
  }

  float* out = partial + split * stride;
  if (first_channel == 0) {  // the eight lanes of a filter
#pragma unroll
    for (int lanes = 1; lanes < 8; lanes *= 2)
      bias_sum += __shfl_xor_sync(0xffffffffu, bias_sum, lanes);
    if (depth == 0) bias_sums[row] = bias_sum;
  }
  block.exchange(smem);
  __syncthreads();
  if (first_channel == 0 && depth == 0 && row < Block::kA && k < g.d.k) {
#pragma unroll
    for (int other = Block::kA; other < kRows; other += Block::kA)
      bias_sum += bias_sums[row + other];
    out[size_t(g.d.k) * g.d.c * 9 + k] = bias_sum;
  }
  // This thread: one filter, four channels, of 256 threads twice.
#pragma unroll
  for (int half = 0; half < kChannels; ++half) {
    const int c = depth * 4 + (row / Block::kA + half) * 32;
    float m[4][16], dw[4][9];
    Block::collect(smem, row % Block::kA, c, m);
#pragma unroll
    for (int e = 0; e < 4; ++e) winograd_filter_transposed(m[e], dw[e]);
    if (k >= g.d.k || first_channel + c >= g.d.c) continue;
    float* to = out + (size_t(k) * g.d.c + first_channel + c) * 9;
    if (g.d.c % 4 == 0) {
#pragma unroll
      for (int i = 0; i < 36; i += 4)
        *reinterpret_cast<float4*>(to + i) =
            make_float4(dw[i / 9][i % 9], dw[(i + 1) / 9][(i + 1) % 9],
                        dw[(i + 2) / 9][(i + 2) % 9], dw[(i + 3) / 9][(i + 3) % 9]);
    } else {
#pragma unroll
      for (int i = 0; i < 36; ++i)
        if (first_channel + c + i / 9 < g.d.c) to[i] = dw[i / 9][i % 9];
    }
  }
}

}  // namespace duet
