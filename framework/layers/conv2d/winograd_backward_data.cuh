// Winograd backward_data of small images: dy goes into the Winograd domain tile by tile, and the
// 4x4 patches of an image, which overlap, are summed in shared memory.
#pragma once

#include <algorithm>

#include "layers/conv2d/winograd_block.cuh"
#include "layers/conv2d/winograd_copies.cuh"
#include "layers/conv2d/winograd_filters.cuh"
#include "layers/conv2d/winograd_gradients.cuh"

namespace duet {

inline constexpr int kDataStages = 4;

// What a block has: an image, whose tiles are rows of the product and channels columns; or two images, whose
// tiles are columns, so that filters are brought for both.
template <class Block>
struct WinogradDataShape {
  static constexpr int kImages = Block::kB / 32 == 2 && Block::kGroups == 1 ? 2 : 1;
  static constexpr bool kFiltersAreRows = kImages == 2;
  static constexpr int kChannels = kFiltersAreRows ? Block::kA : Block::kB;
  static constexpr int kFilterChunk = kFiltersAreRows ? Block::kChunkA : Block::kChunkB,
                       kTileChunk = kFiltersAreRows ? Block::kChunkB : Block::kChunkA;
  /// Between channels and between tiles after the exchange.
  static constexpr int kChannelPitch = kFiltersAreRows ? Block::kExchangePitch : 1,
                       kTilePitch = kFiltersAreRows ? 1 : Block::kExchangePitch;
};

// The sums of a cluster's block lie behind the points of the first group, in place of the second.
template <class Block>
size_t winograd_data_smem_bytes(const WinogradGeometry& g) {
  using Shape = WinogradDataShape<Block>;
  const int sums = Shape::kImages * std::min(Shape::kChannels, g.d.c) * g.pixels_in;
  return sizeof(float) * std::max({kDataStages * Shape::kFilterChunk + 2 * Shape::kTileChunk,
                                   Block::kExchangeFloats, Block::kExchangeGroup + sums});
}

// grid: (blocks of kImages, for each its cluster; blocks of kChannels)
template <class Block, bool kCluster, class Gradient>
__global__ void __launch_bounds__(Block::kThreads, 1)
    winograd_backward_data_kernel(const __grid_constant__ WinogradGeometry g,
                                  const __grid_constant__ Gradient dy, const float* __restrict__ u,
                                  float* __restrict__ dx) {
  extern __shared__ __align__(128) float smem[];
  __shared__ WinogradCopies<kDataStages> copies;
  using Shape = WinogradDataShape<Block>;
  constexpr bool kFiltersAreRows = Shape::kFiltersAreRows;
  float* const filters = smem;
  float* const tiles = smem + kDataStages * Shape::kFilterChunk;
  const WinogradShare<kCluster> share(ceil_div(g.d.k, Block::kDepth));
  const int first_image = share.product() * Shape::kImages,
            first_channel = blockIdx.y * Shape::kChannels;

  const int chunks = share.chunks, first_k = share.first_chunk * Block::kDepth;
  const float* u_block =
      u + (size_t(blockIdx.y) * ceil_div(g.d.k, Block::kDepth) + share.first_chunk) *
              Shape::kFilterChunk;
  auto copy = [&](int chunk) {  // by thread 0
    copies.start(chunk, filters + chunk % kDataStages * Shape::kFilterChunk,
                 u_block + size_t(chunk) * Shape::kFilterChunk,
                 sizeof(float) * Shape::kFilterChunk);
  };
  using Element = typename Block::Element;
  using GradientTile = typename Gradient::Tile;
  Element element = Block::element();
  if constexpr (kFiltersAreRows) {
    static_assert(Block::kB * Block::kDepth == Block::kThreads);
    element = {int(threadIdx.x / Block::kDepth), int(threadIdx.x % Block::kDepth)};
  }
  const Element extra_element = Block::extra_element();
  auto index_of = [](const Element& e) { return kFiltersAreRows ? e.row % 32 : e.row; };
  auto tile_of = [&](const Element& e) {
    WinogradTile t = WinogradTile::at(g, min(index_of(e), g.tiles - 1));
    t.n = first_image + (kFiltersAreRows ? e.row / 32 : 0);
    return t;
  };
  const WinogradTile tile = tile_of(element), extra_tile = tile_of(extra_element);
  GradientTile gradient, extra_gradient;
  auto fetch = [&](int chunk, const Element& e, const WinogradTile& t) {
    const int k = first_k + chunk * Block::kDepth + e.depth;
    return index_of(e) < g.tiles && k < g.d.k && t.n < g.d.n ? dy.load(g, t, k) : GradientTile{};
  };
  auto load = [&](int chunk) {
    gradient = fetch(chunk, element, tile);
    if (Block::prepares_extra(chunk)) extra_gradient = fetch(chunk, extra_element, extra_tile);
  };
  auto store = [&](int chunk) {
    float* const to = tiles + (chunk & 1) * Shape::kTileChunk;
    float points[16];
    gradient.transform(element.depth, points);
    if constexpr (kFiltersAreRows) {
      store_b<Block>(to, element.depth, element.row, points);
    } else {
      store_a<Block>(to, element.depth, element.row, points);
    }
    if (!Block::prepares_extra(chunk)) return;
    extra_gradient.transform(extra_element.depth, points);
    store_a<Block>(to, extra_element.depth, extra_element.row, points);
  };
  copies.init();
  if (threadIdx.x == 0) {
    wait_for_primary();  // which transforms the filters
    for (int chunk = 0; chunk < min(chunks, kDataStages - 1); ++chunk) copy(chunk);
  }
  Block block;
  load(0);
  store(0);
  if (chunks > 1) load(1);
  __syncthreads();
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const float* of_tiles = tiles + (chunk & 1) * Shape::kTileChunk;
    const float* of_filters = filters + chunk % kDataStages * Shape::kFilterChunk;
    const float* a = kFiltersAreRows ? of_filters : of_tiles;
    const float* b = kFiltersAreRows ? of_tiles : of_filters;
    const int ahead = chunk + kDataStages - 1;
    if (threadIdx.x == 0 && ahead < chunks) copy(ahead);
    copies.wait(chunk);
    block.template multiply<0, 2>(a, b);
    store(chunk + 1);  // behind the last for nobody, so that there is no branch
    load(chunk + 2);
    block.template multiply<1, 2>(a, b);
    __syncthreads();
  }

  block.exchange(smem);
  __syncthreads();
  // Each (tile, channel): add the groups, transform, leave the 4x4 patch where its first group's
  // points were.
  for (int pair = threadIdx.x; pair < Block::kA * Block::kB; pair += Block::kThreads) {
    const int row = pair / Block::kB, column = pair % Block::kB;
    if ((kFiltersAreRows ? column % 32 : row) >= g.tiles) continue;
    float* at = smem + row * Block::kExchangePitch + column;
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
  const int channels = min(Shape::kChannels, g.d.c - first_channel),
            positions = channels * g.pixels_in;
  const int images = min(Shape::kImages, g.d.n - first_image);
  float* const out = dx + (size_t(first_image) * g.d.c + first_channel) * g.pixels_in;
  const size_t image_pitch = size_t(g.d.c) * g.pixels_in;
  float* const sums = smem + Block::kExchangeGroup;  // of a cluster's block
  for (int image = 0; image < images; ++image)
    for (int i = threadIdx.x; i < positions; i += Block::kThreads) {
      int c, pixel, h, w;
      g.by_pixels_in.divmod(i, c, pixel);
      g.by_w.divmod(pixel, h, w);
      h += g.d.pad_h, w += g.d.pad_w;
      const float* const at = smem + c * Shape::kChannelPitch + image * 32 * Shape::kTilePitch;
      float total = 0.f;
#pragma unroll
      for (int a = 0; a < 2; ++a)
#pragma unroll
        for (int b = 0; b < 2; ++b) {
          const int th = h / 2 - a, tw = w / 2 - b;
          if (uint32_t(th) < uint32_t(g.tiles_h) && uint32_t(tw) < uint32_t(g.tiles_w)) {
            const int point = (h % 2 + 2 * a) * 4 + w % 2 + 2 * b;
            total += at[point * Block::kExchangePoint + (th * g.tiles_w + tw) * Shape::kTilePitch];
          }
        }
      (kCluster ? sums + image * positions : out + image * image_pitch)[i] = total;
    }
  if constexpr (kCluster) {
    share.sync();
    const int each = ceil_div(positions, share.blocks), first = share.rank * each;
    for (int image = 0; image < images; ++image)
      for (int i = first + threadIdx.x; i < min(first + each, positions); i += Block::kThreads)
        out[image * image_pitch + i] = share.sum(sums + image * positions + i);
    share.sync();
  }
}

}  // namespace duet
