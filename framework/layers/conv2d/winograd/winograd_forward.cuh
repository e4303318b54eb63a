// Winograd forward: patches of x against transformed filters. What becomes of a tile's outputs is
// up to winograd_outputs.cuh; backward_data of larger images is the same product with dy for x.
#pragma once

#include "layers/conv2d/winograd/winograd_block.cuh"
#include "layers/conv2d/winograd/winograd_copies.cuh"
#include "layers/conv2d/winograd/winograd_filters.cuh"
#include "layers/conv2d/winograd/winograd_outputs.cuh"

namespace duet {

// Chunks of U, and of x where that is possible, arrive by bulk copy kForwardStages - 1 chunks
// ahead; the barrier of a stage counts the bytes of both. Transforming the next chunk in the middle
// of multiplying the present one lets the warps of a scheduler cover for each other: at the end of
// a chunk all would transform at once.
inline constexpr int kForwardStages = 3;

// Can the channels of a chunk of all images under a block be copied whole? Else each thread loads
// its patches. (Copying the rows under the block's tiles from larger images was no faster: 112 us
// against 109 at 32x128x28x28 -> 128, padded.)
template <class Block>
__host__ __device__ int winograd_images(const WinogradGeometry& g) {
  return ceil_div(Block::kA - 1, g.tiles) + 1;
}
template <class Block>
bool winograd_forward_staged(const WinogradGeometry& g) {
  constexpr int kMostImages = 3, kMostPixels = 196;
  // Bulk copies begin and end at multiples of 16 bytes.
  return g.d.c % 4 == 0 && winograd_images<Block>(g) <= kMostImages && g.pixels_in <= kMostPixels;
}
/// Floats of a stage's images.
template <class Block>
__host__ __device__ int winograd_image_floats(const WinogradGeometry& g) {
  return winograd_images<Block>(g) * Block::kDepth * g.pixels_in;
}

template <class Block>
size_t winograd_forward_smem_bytes(const WinogradGeometry& g) {
  const int image_floats = winograd_forward_staged<Block>(g) ? winograd_image_floats<Block>(g) : 0;
  const int floats = kForwardStages * (Block::kChunkB + image_floats) + 2 * Block::kChunkA;
  return sizeof(float) * (floats > Block::kExchangeFloats ? floats : Block::kExchangeFloats);
}

// grid: (blocks of kA tiles, for each its cluster; blocks of kB filters)
template <class Block, bool kStaged, bool kCluster, class Output>
__global__ void __launch_bounds__(Block::kThreads, 1)
    winograd_forward_kernel(const __grid_constant__ WinogradGeometry g, const float* __restrict__ x,
                            const float* __restrict__ u, const __grid_constant__ Output output) {
  extern __shared__ __align__(128) float smem[];
  __shared__ WinogradCopies<kForwardStages> copies;
  using Element = typename Block::Element;
  float* const chunks_b = smem;
  float* const chunks_a = smem + kForwardStages * Block::kChunkB;
  float* const chunks_x = chunks_a + 2 * Block::kChunkA;
  const int image_floats = kStaged ? winograd_image_floats<Block>(g) : 0;

  const WinogradShare<kCluster> share(ceil_div(g.d.c, Block::kDepth));
  const int first_tile = share.product() * Block::kA,
            last_tile = min(first_tile + Block::kA, g.total_tiles) - 1;
  int first_image, last_image, unused;
  g.by_tiles.divmod(first_tile, first_image, unused);
  g.by_tiles.divmod(last_tile, last_image, unused);
  // Where an element's patches are, in a stage's images or in x.
  auto patch_of = [&](const Element& e) -> WinogradPatch {
    if (first_tile + e.row > last_tile) return {0, 0};
    const WinogradTile t = WinogradTile::at(g, first_tile + e.row);
    const int plane =
        kStaged ? (t.n - first_image) * Block::kDepth + e.depth : t.n * g.d.c + e.depth;
    return WinogradPatch::at(plane * g.pixels_in, 2 * t.row - g.d.pad_h, 2 * t.column - g.d.pad_w,
                             g.d.h, g.d.w);
  };
  const Element element = Block::element(), extra_element = Block::extra_element();
  const WinogradPatch patch = patch_of(element);
  WinogradPatch extra_patch{0, 0};
  if constexpr (Block::kA > 32) extra_patch = patch_of(extra_element);

  const int chunks = share.chunks, first_c = share.first_chunk * Block::kDepth;
  const float* u_block =
      u +
      (size_t(blockIdx.y) * ceil_div(g.d.c, Block::kDepth) + share.first_chunk) * Block::kChunkB;
  auto copy = [&](int chunk) {  // by thread 0
    const int stage = chunk % kForwardStages, c = first_c + chunk * Block::kDepth;
    const uint32_t x_bytes =
        kStaged ? sizeof(float) * min(Block::kDepth, g.d.c - c) * g.pixels_in : 0;
    copies.start(chunk, chunks_b + stage * Block::kChunkB, u_block + size_t(chunk) * Block::kChunkB,
                 sizeof(float) * Block::kChunkB, max(last_image - first_image + 1, 0) * x_bytes);
    if constexpr (kStaged)
      for (int image = first_image; image <= last_image; ++image)
        bulk_copy(
            chunks_x + stage * image_floats + (image - first_image) * Block::kDepth * g.pixels_in,
            x + (size_t(image) * g.d.c + c) * g.pixels_in, x_bytes, copies.full[stage]);
  };
  float d[16];
  auto load = [&](int chunk, const WinogradPatch& from, int depth) {
    const int c = first_c + chunk * Block::kDepth;
    const WinogradPatch there{from.base, c + depth < g.d.c ? from.inside : 0};
    if constexpr (kStaged) {
      there.load<true>(chunks_x + chunk % kForwardStages * image_floats, 0, g.d.w, d);
    } else {
      there.load<false>(x, c * g.pixels_in, g.d.w, d);
    }
  };
  auto store = [&](int chunk, const Element& e) {
    winograd_input(d);
    store_a<Block>(chunks_a + (chunk & 1) * Block::kChunkA, e.depth, e.row, d);
  };
  // The warp's turn at the last four tiles.
  auto prepare_extra = [&](int chunk) {
    if (!Block::prepares_extra(chunk)) return;
    load(min(chunk, chunks - 1), extra_patch, extra_element.depth);
    store(chunk, extra_element);
  };
  copies.init();
  if (threadIdx.x == 0) {
    wait_for_primary();  // which transforms the filters
    for (int chunk = 0; chunk < min(chunks, kForwardStages - 1); ++chunk) copy(chunk);
  }
  Block block;
  if constexpr (!kStaged) load(0, patch, element.depth);
  copies.wait(0);
  if (Block::prepares(0)) {
    if constexpr (kStaged) load(0, patch, element.depth);
    store(0, element);
  }
  prepare_extra(0);
  __syncthreads();
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const float* a = chunks_a + (chunk & 1) * Block::kChunkA;
    const float* b = chunks_b + chunk % kForwardStages * Block::kChunkB;
    // Where all threads transform there is no branch from here on, so that the compiler mixes the transforms
    // with the products: behind the last chunk it is transformed again, for nobody.
    const bool prepares = Block::prepares(chunk + 1);
    const int next = min(chunk + 1, chunks - 1), ahead = chunk + kForwardStages - 1;
    if (threadIdx.x == 0 && ahead < chunks) copy(ahead);
    copies.wait(next);
    if (prepares) load(next, patch, element.depth);
    block.template multiply<0, 2>(a, b);
    if (prepares) store(chunk + 1, element);
    prepare_extra(chunk + 1);
    block.template multiply<1, 2>(a, b);
    __syncthreads();
  }

  block.exchange(smem);
  __syncthreads();
  constexpr int kFilters = Block::kB * 32 / Block::kThreads;  // of this thread
  constexpr bool kExtra = Block::kA > 32;                     // and one of the last four tiles
  const int column = threadIdx.x / 32 * kFilters,
            extra_column = element.depth * 8 + extra_element.depth;
  float4 v[kFilters + kExtra];
#pragma unroll
  for (int quad = 0; quad < kFilters; quad += 4) {
    float m[4][16];
    Block::collect(smem, element.row, column + quad, m);
#pragma unroll
    for (int e = 0; e < 4; ++e) v[quad + e] = winograd_output(m[e]);
  }
  if constexpr (kExtra) {
    static_assert(Block::kGroups == 1 && !Output::kPool);
    float m[16];
#pragma unroll
    for (int i = 0; i < 16; ++i)
      m[i] = smem[i * Block::kExchangePoint + extra_element.row * Block::kExchangePitch +
                  extra_column];
    v[kFilters] = winograd_output(m);
  }
  if constexpr (kCluster) {  // the first threads' results are the first block's to add, and so on
    float4* const all = reinterpret_cast<float4*>(smem);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kFilters + kExtra; ++i) all[i * Block::kThreads + threadIdx.x] = v[i];
    share.sync();
    const int threads = Block::kThreads / share.blocks, first = share.rank * threads;
    for (int i = threadIdx.x; i < (kFilters + kExtra) * threads; i += Block::kThreads) {
      float4* const at = all + i / threads * Block::kThreads + first + i % threads;
      *at = share.sum(at);
    }
    share.sync();
    if (int(threadIdx.x) / threads != share.rank) return;
#pragma unroll
    for (int i = 0; i < kFilters + kExtra; ++i) v[i] = all[i * Block::kThreads + threadIdx.x];
  }
  const int first_filter = blockIdx.y * Block::kB;
  if (first_tile + element.row <= last_tile) {
    const WinogradTile tile = WinogradTile::at(g, first_tile + element.row);
    typename Output::Tile out{output, g, tile, first_filter + column};
#pragma unroll
    for (int e = 0; e < kFilters; ++e) out.put(e, v[e]);
    out.template finish<kFilters>();
  }
  if constexpr (kExtra) {
    if (first_tile + extra_element.row > last_tile) return;
    const WinogradTile tile = WinogradTile::at(g, first_tile + extra_element.row);
    typename Output::Tile out{output, g, tile, first_filter + extra_column};
    out.put(0, v[kFilters]);
  }
}

}  // namespace duet
