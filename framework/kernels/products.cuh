// Products in global memory (kernels/product.cuh), planned and launched: one with as many results as
// an image has values, and one of few results and long sums, as the gradient of weights. What they
// multiply is up to the gathers; what multiplies, up to Tiles: FmaTiles or MmaTiles.
#pragma once

#include <string>

#include "device/launch.h"
#include "kernels/product.cuh"
#include "kernels/product_epilogues.cuh"
#include "kernels/split_reduction.cuh"

namespace duet {

enum class TileSize { kLarge, kMedium, kSmall, kNarrow };

/// Calls f with a value of the tile's type.
template <class Tiles, class F>
void with_tile(TileSize size, F f) {
  switch (size) {
    case TileSize::kLarge:
      return f(typename Tiles::Large{});
    case TileSize::kMedium:
      return f(typename Tiles::Medium{});
    case TileSize::kSmall:
      return f(typename Tiles::Small{});
    case TileSize::kNarrow:
      return f(typename Tiles::Narrow{});
  }
}

template <class Tiles>
std::string tile_text(TileSize size) {
  std::string text;
  with_tile<Tiles>(size, [&]<class Tile>(Tile) {
    text = "tile " + std::to_string(Tile::kM) + "x" + std::to_string(Tile::kN);
  });
  return text + Tiles::kText;
}

/// For a rows x cols product of images: the largest tile that still gives every multiprocessor two
/// blocks; for few columns the one that has no more than those.
inline TileSize choose_tile(int rows, int cols, int multiprocessors) {
  const auto enough = [&](int m, int n) {
    return int64_t{ceil_div(rows, m)} * ceil_div(cols, n) >= 2 * multiprocessors;
  };
  if (cols <= 32) return TileSize::kNarrow;
  if (cols > 64 && enough(128, 128)) return TileSize::kLarge;
  return enough(128, 64) ? TileSize::kMedium : TileSize::kSmall;
}

/// An image-sized product and how it is computed: its tile and, where its tiles are too few for the
/// multiprocessors, the splits of its sum. One in `phases` parts of about equal size has `depth` as
/// the longest sum of them; others have no phases.
template <class Tiles>
struct ImageProduct {
  using SmallTile = typename Tiles::Small;
  int rows = 1, cols = 1, depth = 1;
  TileSize tile = TileSize::kSmall;
  SplitPlan split;

  ImageProduct() = default;
  ImageProduct(int rows_, int cols_, int depth_, int multiprocessors, size_t workspace_limit,
               int phases = 0)
      : rows(rows_), cols(cols_), depth(depth_), tile(choose_tile(rows, cols, multiprocessors)) {
    split.depth_per_split = depth;
    // What a phase adds to the largest tile's registers would spill.
    if (phases > 0 && tile == TileSize::kLarge) tile = TileSize::kMedium;
    if (!can_split()) return;
    // Eight warps a multiprocessor hide most of the gathers' latency. The second kernel takes about
    // as long as eight steps.
    constexpr int kWarps = 8, kShortest = 8 * SmallTile::kK;
    with_tile<Tiles>(tile, [&]<class Tile>(Tile) {
      const int parts = std::max(phases, 1);
      const int tiles =
          parts * ceil_div(ceil_div(rows, parts), Tile::kM) * ceil_div(cols, Tile::kN);
      const auto fitting = static_cast<int64_t>(workspace_limit / sizeof(float) / stride());
      const auto splits = static_cast<int>(std::min<int64_t>(
          {kWarps * 32 / Tile::kThreads * multiprocessors / tiles, depth / kShortest, fitting}));
      split = plan_split(tiles, depth, Tile::kK, splits * tiles);
    });
  }
  /// The larger tiles are chosen only where there are enough of them.
  bool can_split() const { return tile == TileSize::kSmall || tile == TileSize::kNarrow; }
  /// Floats between the partial results of two splits.
  size_t stride() const { return (size_t(rows) * cols + 3) / 4 * 4; }
  size_t workspace_bytes() const {
    return split.splits == 1 ? 0 : sizeof(float) * split.splits * stride();
  }
  std::string text() const {
    return tile_text<Tiles>(tile) +
           (split.splits == 1 ? "" : ", " + std::to_string(split.splits) + " splits");
  }
};

// out = function(A * B (+ bias)), written per pixel plane (NCHW) or row-major (NHWC). With kSplit each
// blockIdx.z adds up depth_per_split products and has an `out` of its own, `stride` from the next.
template <Layout kLayout, bool kSplit, class Function, class Tile, class T, class GatherA,
          class GatherB>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kMinBlocks)
    image_product_kernel(const __grid_constant__ GatherA a, const __grid_constant__ GatherB b,
                         int rows, int cols, int depth, int pixels, FastDivisor by_pixels,
                         const float* __restrict__ bias, T* __restrict__ out, int depth_per_split,
                         size_t stride) {
  wait_for_primary();
  using Smem = ProductSmem<Tile, GatherA, GatherB>;
  Smem& smem = product_smem<Smem>();
  const int m0 = blockIdx.x * Tile::kM, n0 = blockIdx.y * Tile::kN;
  int k_begin = 0, k_end = depth;
  if constexpr (kSplit) {
    k_begin = blockIdx.z * depth_per_split;
    k_end = min(depth, k_begin + depth_per_split);
    out += blockIdx.z * stride;
  }
  float acc[Tile::kThreadM][Tile::kThreadN];
  compute_product<Tile, false>(a, b, m0, n0, k_begin, k_end, smem, acc, nullptr);
  if constexpr (kLayout == Layout::kNCHW) {
    const auto locate = [&](int m, int& image, int& pixel) { by_pixels.divmod(m, image, pixel); };
    store_pixel_major<Tile, Smem::kScratchFloats, Function>(acc, m0, n0, rows, cols, pixels, locate,
                                                            bias, out, smem.scratch());
  } else {
    store_row_major<Tile, Function>(acc, m0, n0, rows, cols, bias, out);
  }
}

/// A product whose sum is not split. rows = images * pixels. `bias` may be nullptr; `Function` is of
/// a result, without state.
template <Layout kLayout, class Tiles, class T, class GatherA, class GatherB,
          class Function = std::identity>
void launch_image_product(TileSize tile, const GatherA& a, const GatherB& b, int rows, int cols,
                          int depth, int pixels, const float* bias, T* out, cudaStream_t stream,
                          Function = {}) {
  const FastDivisor by_pixels(pixels);
  with_tile<Tiles>(tile, [&]<class Tile>(Tile) {
    const dim3 grid(ceil_div(rows, Tile::kM), ceil_div(cols, Tile::kN));
    launch_product_kernel<ProductSmem<Tile, GatherA, GatherB>>(
        image_product_kernel<kLayout, false, Function, Tile, T, GatherA, GatherB>, grid,
        Tile::kThreads, stream, a, b, rows, cols, depth, pixels, by_pixels, bias, out, depth,
        size_t{0});
  });
}

/// A product as planned. `workspace` has workspace_bytes() of the plan.
template <Layout kLayout, class Tiles, class T, class GatherA, class GatherB,
          class Function = std::identity>
void launch_image_product(const ImageProduct<Tiles>& p, const GatherA& a, const GatherB& b,
                          int pixels, const float* bias, T* out, void* workspace,
                          cudaStream_t stream, Function function = {}) {
  if (p.split.splits == 1) {
    launch_image_product<kLayout, Tiles>(p.tile, a, b, p.rows, p.cols, p.depth, pixels, bias, out,
                                         stream, function);
    return;
  }
  float* partial = static_cast<float*>(workspace);
  const auto launch = [&]<class Tile>(Tile) {
    const dim3 grid(ceil_div(p.rows, Tile::kM), ceil_div(p.cols, Tile::kN), p.split.splits);
    launch_product_kernel<ProductSmem<Tile, GatherA, GatherB>>(
        image_product_kernel<kLayout, true, std::identity, Tile, float, GatherA, GatherB>, grid,
        Tile::kThreads, stream, a, b, p.rows, p.cols, p.depth, pixels, FastDivisor(pixels), nullptr,
        partial, p.split.depth_per_split, p.stride());
  };
  p.tile == TileSize::kNarrow ? launch(typename Tiles::Narrow{}) : launch(typename Tiles::Small{});
  launch_sum_images<kLayout>(partial, p.split.splits, p.stride(), p.rows * p.cols, p.cols, pixels,
                             bias, out, stream, function);
}

/// A gradient of weights: `rows` x `cols` sums of `depth` products, and the sums of A's rows.
template <class Tiles>
struct WeightProduct {
  using SmallTile = typename Tiles::Small;
  using MediumTile = typename Tiles::Medium;
  int rows = 1, cols = 1, depth = 1;
  TileSize tile = TileSize::kSmall;
  SplitPlan split;

  WeightProduct() = default;
  WeightProduct(int rows_, int cols_, int depth_, int multiprocessors)
      : rows(rows_),
        cols(cols_),
        depth(depth_),
        tile(rows <= 64 ? TileSize::kSmall : TileSize::kMedium) {
    const bool small = tile == TileSize::kSmall;
    const int tiles = ceil_div(rows, small ? SmallTile::kM : MediumTile::kM) *
                      ceil_div(cols, small ? SmallTile::kN : MediumTile::kN);
    // The second kernel takes about as long as eight steps.
    const int most = std::max(1, depth / (8 * SmallTile::kK));
    split = plan_split(tiles, depth, SmallTile::kK,
                       std::min((small ? 4 : 3) * multiprocessors, most * tiles));
  }
  size_t workspace_bytes() const {
    return split.splits == 1 ? 0 : sizeof(float) * split.splits * partial_stride(rows, cols);
  }
  std::string text() const {
    return tile_text<Tiles>(tile) + ", " + std::to_string(split.splits) + " splits";
  }
};

// Split s writes its part of dw [rows][cols] to dw + s * stride, and the row sums likewise to
// row_sums, which may be nullptr.
template <class Tile, class GatherA, class GatherB>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kMinBlocks)
    weight_product_kernel(const __grid_constant__ GatherA a, const __grid_constant__ GatherB b,
                          int rows, int cols, int depth, int depth_per_split, float* dw,
                          float* row_sums, size_t stride) {
  wait_for_primary();
  auto& smem = product_smem<ProductSmem<Tile, GatherA, GatherB>>();
  __shared__ float block_sums[Tile::kM];
  const int n0 = blockIdx.x * Tile::kN, m0 = blockIdx.y * Tile::kM, split = blockIdx.z;
  const int k_begin = split * depth_per_split, k_end = min(depth, k_begin + depth_per_split);
  const bool sums = n0 == 0 && row_sums != nullptr;
  float acc[Tile::kThreadM][Tile::kThreadN];
  compute_product<Tile, true>(a, b, m0, n0, k_begin, k_end, smem, acc, sums ? block_sums : nullptr);
  store_row_major<Tile>(acc, m0, n0, rows, cols, nullptr, dw + split * stride);
  if (sums)
    for (int row = threadIdx.x; row < Tile::kM; row += Tile::kThreads)
      if (m0 + row < rows) row_sums[split * stride + m0 + row] = block_sums[row];
}

/// A gathers dy (rows are filters), B gathers x (rows are taps). Split s writes to dw and db (or
/// nullptr), each + s * partial_stride(rows, cols).
template <class Tiles, class GatherA, class GatherB>
void launch_weight_parts(const WeightProduct<Tiles>& p, const GatherA& a, const GatherB& b,
                         float* dw, float* db, cudaStream_t stream) {
  const auto launch = [&]<class Tile>(Tile) {
    const dim3 grid(ceil_div(p.cols, Tile::kN), ceil_div(p.rows, Tile::kM), p.split.splits);
    launch_product_kernel<ProductSmem<Tile, GatherA, GatherB>>(
        weight_product_kernel<Tile, GatherA, GatherB>, grid, Tile::kThreads, stream, a, b, p.rows,
        p.cols, p.depth, p.split.depth_per_split, dw, db, partial_stride(p.rows, p.cols));
  };
  p.tile == TileSize::kSmall ? launch(typename Tiles::Small{}) : launch(typename Tiles::Medium{});
}

/// dw and db (or nullptr), whole. `workspace` has workspace_bytes() of the plan.
template <class Tiles, class GatherA, class GatherB>
void launch_weight_product(const WeightProduct<Tiles>& p, const GatherA& a, const GatherB& b,
                           float* dw, float* db, void* workspace, cudaStream_t stream) {
  if (p.split.splits == 1) return launch_weight_parts(p, a, b, dw, db, stream);
  float* const parts = static_cast<float*>(workspace);
  const int count = p.rows * p.cols;
  launch_weight_parts(p, a, b, parts, parts + count, stream);
  launch_reduce_splits(parts, p.split.splits, partial_stride(p.rows, p.cols), count + p.rows, count,
                       dw, db, stream);
}

}  // namespace duet
