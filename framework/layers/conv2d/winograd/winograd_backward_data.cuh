// Winograd backward_data of small images: dy goes into the Winograd domain tile by tile, and the
// 4x4 patches of an image, which overlap, are summed in shared memory.
#pragma once

#include <algorithm>

#include "layers/conv2d/winograd/winograd_block.cuh"
#include "layers/conv2d/winograd/winograd_copies.cuh"
#include "layers/conv2d/winograd/winograd_filters.cuh"
#include "layers/conv2d/winograd/winograd_gradients.cuh"

namespace duet {

inline constexpr int kDataStages = 4;

// The sums of a cluster's block lie behind the points of the first group, in place of the second.
template <class Block>
size_t winograd_data_smem_bytes(const WinogradGeometry& g) {
  const int sums = std::min(Block::kB, g.d.c) * g.pixels_in;
  return sizeof(float) * std::max({kDataStages * Block::kChunkB + 2 * Block::kChunkA,
                                   Block::kExchangeFloats, Block::kExchangeGroup + sums});
}

// grid: (images, for each its cluster; blocks of kB channels)
template <class Block, bool kCluster, class Gradient>
__global__ void __launch_bounds__(Block::kThreads, 1)
    winograd_backward_data_kernel(const __grid_constant__ WinogradGeometry g,
                                  const __grid_constant__ Gradient dy, const float* __restrict__ u,
                                  float* __restrict__ dx) {
  extern __shared__ __align__(128) float smem[];
  __shared__ WinogradCopies<kDataStages> copies;
  float* const chunks_b = smem;
  float* const chunks_a = smem + kDataStages * Block::kChunkB;
  const WinogradShare<kCluster> share(ceil_div(g.d.k, Block::kDepth));
  const int image = share.product(), first_channel = blockIdx.y * Block::kB;

  const int chunks = share.chunks, first_k = share.first_chunk * Block::kDepth;
  const float* u_block =
      u +
      (size_t(blockIdx.y) * ceil_div(g.d.k, Block::kDepth) + share.first_chunk) * Block::kChunkB;
  auto copy = [&](int chunk) {  // by thread 0
    copies.start(chunk, chunks_b + chunk % kDataStages * Block::kChunkB,
                 u_block + size_t(chunk) * Block::kChunkB, sizeof(float) * Block::kChunkB);
  };
  using Element = typename Block::Element;
  using GradientTile = typename Gradient::Tile;
  const Element element = Block::element(), extra_element = Block::extra_element();
  auto tile_of = [&](const Element& e) {
    WinogradTile t = WinogradTile::at(g, min(e.row, g.tiles - 1));
    t.n = image;
    return t;
  };
  const WinogradTile tile = tile_of(element), extra_tile = tile_of(extra_element);
  GradientTile gradient, extra_gradient;
  auto fetch = [&](int chunk, const Element& e, const WinogradTile& t) {
    const int k = first_k + chunk * Block::kDepth + e.depth;
    return e.row < g.tiles && k < g.d.k && image < g.d.n ? dy.load(g, t, k) : GradientTile{};
  };
  auto load = [&](int chunk) {
    gradient = fetch(chunk, element, tile);
    if (Block::prepares_extra(chunk)) extra_gradient = fetch(chunk, extra_element, extra_tile);
  };
  auto store = [&](int chunk) {  // by its threads; they load their next one then
    float* chunk_a = chunks_a + (chunk & 1) * Block::kChunkA;
    float points[16];
    gradient.transform(element.depth, points);
    store_a<Block>(chunk_a, element.depth, element.row, points);
    if (!Block::prepares_extra(chunk)) return;
    extra_gradient.transform(extra_element.depth, points);
    store_a<Block>(chunk_a, extra_element.depth, extra_element.row, points);
  };
  copies.init();
  if (threadIdx.x == 0) {
    wait_for_primary();  // which transforms the filters
    for (int chunk = 0; chunk < min(chunks, kDataStages - 1); ++chunk) copy(chunk);
  }
  Block block;
  load(Block::first_prepared());
  if (Block::prepares(0)) {
    store(0);
    load(Block::kTurns);
  }
  __syncthreads();
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const float* a = chunks_a + (chunk & 1) * Block::kChunkA;
    const float* b = chunks_b + chunk % kDataStages * Block::kChunkB;
    const int ahead = chunk + kDataStages - 1;
    if (threadIdx.x == 0 && ahead < chunks) copy(ahead);
    copies.wait(chunk);
    block.template multiply<0, 2>(a, b);
    if (Block::prepares(chunk + 1)) {
      store(chunk + 1);  // behind the last for nobody, so that there is no branch
      load(chunk + 1 + Block::kTurns);
    }
    block.template multiply<1, 2>(a, b);
    __syncthreads();
  }

  block.exchange(smem);
  __syncthreads();
  // Each (tile, channel): add the groups, transform, leave the 4x4 patch where its first group's
  // points were.
  for (int pair = threadIdx.x; pair < g.tiles * Block::kB; pair += Block::kThreads) {
    float* at = smem + pair / Block::kB * Block::kExchangePitch + pair % Block::kB;
    float m[16];
#pragma unroll
    for (int p = 0; p < 16; ++p) {
      m[p] = at[p * Block::kExchangePoint];
      if constexpr (Block::kGroups == 2)
        m[p] += at[p * Block::kExchangePoint + Block::kExchangeGroup];
    }
    winograd_input_transposed(m);
#pragma unroll
    for (int p = 0; p < 16; ++p) at[p * Block::kExchangePoint] = m[p];
  }
  __syncthreads();
  // Each input position: the sum of the up to four patches over it.
  const int channels = min(Block::kB, g.d.c - first_channel);
  const int positions = image < g.d.n ? channels * g.pixels_in : 0;
  float* const out = dx + (size_t(image) * g.d.c + first_channel) * g.pixels_in;
  float* const sums = smem + Block::kExchangeGroup;  // of a cluster's block
  for (int i = threadIdx.x; i < positions; i += Block::kThreads) {
    int c, pixel, h, w;
    g.by_pixels_in.divmod(i, c, pixel);
    g.by_w.divmod(pixel, h, w);
    h += g.d.pad_h, w += g.d.pad_w;
    float total = 0.f;
#pragma unroll
    for (int a = 0; a < 2; ++a)
#pragma unroll
      for (int b = 0; b < 2; ++b) {
        const int th = h / 2 - a, tw = w / 2 - b;
        if (uint32_t(th) < uint32_t(g.tiles_h) && uint32_t(tw) < uint32_t(g.tiles_w)) {
          const int point = (h % 2 + 2 * a) * 4 + w % 2 + 2 * b;
          total += smem[point * Block::kExchangePoint +
                        (th * g.tiles_w + tw) * Block::kExchangePitch + c];
        }
      }
    (kCluster ? sums : out)[i] = total;
  }
  if constexpr (kCluster) {
    share.sync();
    const int each = ceil_div(positions, share.blocks), first = share.rank * each;
    for (int i = first + threadIdx.x; i < min(first + each, positions); i += Block::kThreads)
      out[i] = share.sum(sums + i);
    share.sync();
  }
}

}  // namespace duet
