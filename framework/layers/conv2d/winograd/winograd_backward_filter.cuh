// Winograd backward_filter: dy and x meet in the Winograd domain; the sum over tiles is split.
#pragma once

#include "device/launch.h"
#include "layers/conv2d/winograd/winograd_block.cuh"
#include "layers/conv2d/winograd/winograd_gradients.cuh"

namespace duet {

// Can the channels of two whole images stay in shared memory? Else each thread loads its patches.
template <class Block>
bool winograd_filter_staged(const WinogradGeometry& g) {
  return g.d.c % Block::kA == 0 && g.tiles >= 8 && g.pixels_in <= 196;
}
template <class Block>
size_t winograd_filter_smem_bytes(const WinogradGeometry& g) {
  const size_t x_floats =
      winograd_filter_staged<Block>(g) ? size_t(2) * Block::kA * g.pixels_in : 0;
  const size_t floats = 2 * (Block::kChunkA + Block::kChunkB) + x_floats;
  return sizeof(float) * (floats > Block::kExchangeFloats ? floats : Block::kExchangeFloats);
}

// Rows of the product are channels and columns filters: what is transformed of x, which costs more than what is
// of dy, serves more sums.
// grid: (blocks of kA channels, blocks of kB filters, splits of the tiles)
// Split s writes its part of dw [k][c][3][3] to dw + s * stride, and of dbias [k] likewise to db, which may be nullptr.
template <class Block, bool kStaged, class Gradient>
__global__ void __launch_bounds__(Block::kThreads, 1)
    winograd_backward_filter_kernel(const __grid_constant__ WinogradGeometry g,
                                    const float* __restrict__ x,
                                    const __grid_constant__ Gradient dy, int tiles_per_split,
                                    size_t stride, float* __restrict__ dw, float* __restrict__ db) {
  wait_for_primary();
  extern __shared__ __align__(128) float smem[];
  __shared__ CopyBarrier barriers[2];
  float* const chunks_b = smem;
  float* const chunks_a = smem + 2 * Block::kChunkB;
  float* const slabs = chunks_a + 2 * Block::kChunkA;  // two images
  const int slab_floats = Block::kA * g.pixels_in;
  // Loading: tile = depth of each chunk, one channel of those chunks that the thread prepares, and of each
  // one filter in kFilters.
  constexpr int kRows = Block::kThreads / Block::kDepth, kFilters = Block::kB / kRows;
  const int depth = threadIdx.x % Block::kDepth, column = threadIdx.x / Block::kDepth,
            row = column % Block::kA;
  const int first_channel = blockIdx.x * Block::kA, first_filter = blockIdx.y * Block::kB,
            split = blockIdx.z;
  const int begin = split * tiles_per_split, end = min(g.total_tiles, begin + tiles_per_split);

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
  float d[16], bias_sums[kFilters] = {};
  typename Gradient::Tile gradients[kFilters];
  // This thread's tile of the chunk whose gradients are loaded, one before it is transformed.
  bool inside;
  WinogradTile tile;
  auto fetch = [&](int chunk) {
    const int number = begin + chunk * Block::kDepth + depth;
    inside = number < end;
    tile = WinogradTile::at(g, min(number, end - 1));
#pragma unroll
    for (int i = 0; i < kFilters; ++i) {
      const int k = first_filter + column + i * kRows;
      gradients[i] = inside && k < g.d.k ? dy.load(g, tile, k) : typename Gradient::Tile{};
    }
  };
  auto load = [&] {
    const int image = tile.n - first_image;
    if constexpr (kStaged) barriers[image & 1].wait(image / 2);
    const int offset =
        kStaged ? (image & 1) * slab_floats : (tile.n * g.d.c + first_channel) * g.pixels_in;
    WinogradPatch patch = WinogradPatch::at(offset, 2 * tile.row - g.d.pad_h,
                                            2 * tile.column - g.d.pad_w, g.d.h, g.d.w);
    if (!inside || first_channel + row >= g.d.c) patch.inside = 0;
    patch.load<kStaged>(kStaged ? slabs : x, row * g.pixels_in, g.d.w, d);
  };
  auto store = [&](int chunk) {
    winograd_input(d);
    store_a<Block>(chunks_a + (chunk & 1) * Block::kChunkA, depth, row, d);
  };
  auto store_gradient = [&](int chunk, int i) {
    float e[16];
    const int k = column + i * kRows;  // the last three bits are those of the filter
    gradients[i].transform(k, e);
    bias_sums[i] += gradients[i].sum(k);
    store_b<Block>(chunks_b + (chunk & 1) * Block::kChunkB, depth, k, e);
  };
  if (kStaged && threadIdx.x == 0) {
    barriers[0].init();
    barriers[1].init();
  }
  __syncthreads();
  copy_images(0);
  Block block;
  fetch(0);
  if (Block::prepares(0)) {
    load();
    store(0);
  }
#pragma unroll
  for (int i = 0; i < kFilters; ++i) store_gradient(0, i);
  fetch(1);
  __syncthreads();
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const float* a = chunks_a + (chunk & 1) * Block::kChunkA;
    const float* b = chunks_b + (chunk & 1) * Block::kChunkB;
    // Of 256 threads there is no branch from the wait on, so that the compiler mixes the transforms with the
    // products; what is behind the last chunk is zero.
    const bool prepares = Block::prepares(chunk + 1);
    copy_images(chunk + 1);
    if (prepares) load();
    block.template multiply<0, 3>(a, b);
    if (prepares) store(chunk + 1);
    store_gradient(chunk + 1, 0);
    block.template multiply<1, 3>(a, b);
    if constexpr (kFilters > 1) store_gradient(chunk + 1, 1);
    fetch(chunk + 2);
    block.template multiply<2, 3>(a, b);
    __syncthreads();
  }

  float* const out = dw + split * stride;
  if (first_channel == 0 && db != nullptr) {  // the eight lanes of a filter
#pragma unroll
    for (int i = 0; i < kFilters; ++i) {
#pragma unroll
      for (int lanes = 1; lanes < 8; lanes *= 2)
        bias_sums[i] += __shfl_xor_sync(0xffffffffu, bias_sums[i], lanes);
      const int k = first_filter + column + i * kRows;
      if (depth == 0 && k < g.d.k) db[split * stride + k] = bias_sums[i];
    }
  }
  block.exchange(smem);
  __syncthreads();
  // A warp: four filters of 32 channels, or twice four. dw leaves through shared memory, where it lies as in
  // its tensor.
  constexpr int kWarps = Block::kThreads / 32, kQuads = Block::kB / 4 / kWarps,
                kPitch = Block::kA * 9;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float weights[kQuads][4][9];
#pragma unroll
  for (int i = 0; i < kQuads; ++i) {
    float m[4][16];
    Block::collect(smem, lane, (warp * kQuads + i) * 4, m);
#pragma unroll
    for (int e = 0; e < 4; ++e) winograd_filter_transposed(m[e], weights[i][e]);
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kQuads; ++i)
#pragma unroll
    for (int e = 0; e < 4; ++e)
#pragma unroll
      for (int tap = 0; tap < 9; ++tap)
        smem[((warp * kQuads + i) * 4 + e) * kPitch + lane * 9 + tap] = weights[i][e][tap];
  __syncwarp();
  const int count = min(Block::kA, g.d.c - first_channel) * 9;
  for (int f = warp * kQuads * 4; f < (warp + 1) * kQuads * 4; ++f) {
    const int k = first_filter + f;
    if (k >= g.d.k) return;
    float* const to = out + (size_t(k) * g.d.c + first_channel) * 9;
    for (int i = lane; i < count; i += 32) to[i] = smem[f * kPitch + i];
  }
}

}  // namespace duet
