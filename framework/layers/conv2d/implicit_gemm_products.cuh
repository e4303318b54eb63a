// The implicit-GEMM products that plain and fused convolutions share: an image-sized result (y of
// forward, dx of backward_data) and dw, whose long sum is split. What they multiply is up to the
// gathers.
#pragma once

#include "layers/conv2d/conv2d_gathers.cuh"
#include "layers/conv2d/implicit_gemm_epilogues.cuh"
#include "layers/conv2d/split_reduction.cuh"

namespace duet {

enum class TileSize { kLarge, kMedium, kSmall, kNarrow };
using LargeTile = GemmTile<128, 128>;
using MediumTile = GemmTile<128, 64>;
using SmallTile = GemmTile<64, 64, 4>;
using NarrowTile = GemmTile<64, 32, 4>;

/// Calls f with a value of the tile's type.
template <class F>
void with_tile(TileSize size, F f) {
  switch (size) {
    case TileSize::kLarge:
      return f(LargeTile{});
    case TileSize::kMedium:
      return f(MediumTile{});
    case TileSize::kSmall:
      return f(SmallTile{});
    case TileSize::kNarrow:
      return f(NarrowTile{});
  }
}

inline std::string tile_text(TileSize size) {
  std::string text;
  with_tile(size, [&]<class Tile>(Tile) {
    text = "tile " + std::to_string(Tile::kM) + "x" + std::to_string(Tile::kN);
  });
  return text;
}

/// For a rows x cols product of images: the largest tile that still gives every multiprocessor two
/// blocks; for few columns the one that has no more than those.
inline TileSize choose_tile(int rows, int cols, int multiprocessors) {
  const auto enough = [&](int m, int n) {
    return int64_t{ceil_div(rows, m)} * ceil_div(cols, n) >= 2 * multiprocessors;
  };
  if (cols <= NarrowTile::kN) return TileSize::kNarrow;
  if (cols > 64 && enough(128, 128)) return TileSize::kLarge;
  return enough(128, 64) ? TileSize::kMedium : TileSize::kSmall;
}

/// An image-sized product and how it is computed: its tile and, where its tiles are too few for the
/// multiprocessors, the splits of its sum. dx of a convolution with a stride is a product in
/// `phases` parts of about equal size, `depth` the longest sum of them; others have no phases.
struct ImageProduct {
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
    with_tile(tile, [&]<class Tile>(Tile) {
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
    return tile_text(tile) +
           (split.splits == 1 ? "" : ", " + std::to_string(split.splits) + " splits");
  }
};

/// dx.
inline ImageProduct input_product(const Conv2dProblem& d, const StridePhases& phases,
                                  int multiprocessors, size_t workspace_limit) {
  return {d.n * d.h * d.w,          d.c,
          d.k * phases.most_taps(), multiprocessors,
          workspace_limit,          phases.unit() ? 0 : phases.count()};
}

// out = A * B (+ bias), written per pixel plane (NCHW) or row-major (NHWC). With kSplit each
// blockIdx.z adds up depth_per_split products and has an `out` of its own, `stride` from the next.
template <Layout kLayout, bool kSplit, class Tile, class T, class GatherA, class GatherB>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kMinBlocks)
    conv2d_image_implicit_gemm_kernel(const __grid_constant__ GatherA a,
                                      const __grid_constant__ GatherB b, int rows, int cols,
                                      int depth, int pixels, FastDivisor by_pixels,
                                      const float* __restrict__ bias, T* __restrict__ out,
                                      int depth_per_split, size_t stride) {
  __shared__ GemmSmem<Tile, GatherA, GatherB> smem;
  const int m0 = blockIdx.x * Tile::kM, n0 = blockIdx.y * Tile::kN;
  int k_begin = 0, k_end = depth;
  if constexpr (kSplit) {
    k_begin = blockIdx.z * depth_per_split;
    k_end = min(depth, k_begin + depth_per_split);
    out += blockIdx.z * stride;
  }
  float acc[Tile::kThreadM][Tile::kThreadN];
  gemm_mainloop<Tile, false>(a, b, m0, n0, k_begin, k_end, smem, acc, nullptr);
  if constexpr (kLayout == Layout::kNCHW) {
    const auto locate = [&](int m, int& image, int& pixel) { by_pixels.divmod(m, image, pixel); };
    store_pixel_major<Tile>(acc, m0, n0, rows, cols, pixels, locate, bias, out, smem.stage[0]);
  } else {
    store_row_major<Tile>(acc, m0, n0, rows, cols, bias, out);
  }
}

/// A product whose sum is not split. rows = images * pixels. `bias` may be nullptr.
template <Layout kLayout, class T, class GatherA, class GatherB>
void launch_image_product(TileSize tile, const GatherA& a, const GatherB& b, int rows, int cols,
                          int depth, int pixels, const float* bias, T* out, cudaStream_t stream) {
  const FastDivisor by_pixels(pixels);
  with_tile(tile, [&]<class Tile>(Tile) {
    const dim3 grid(ceil_div(rows, Tile::kM), ceil_div(cols, Tile::kN));
    conv2d_image_implicit_gemm_kernel<kLayout, false, Tile><<<grid, Tile::kThreads, 0, stream>>>(
        a, b, rows, cols, depth, pixels, by_pixels, bias, out, depth, 0);
  });
  DUET_LAUNCHED();
}

/// A product as planned. `workspace` has workspace_bytes() of the plan.
template <Layout kLayout, class T, class GatherA, class GatherB>
void launch_image_product(const ImageProduct& p, const GatherA& a, const GatherB& b, int pixels,
                          const float* bias, T* out, void* workspace, cudaStream_t stream) {
  if (p.split.splits == 1) {
    launch_image_product<kLayout>(p.tile, a, b, p.rows, p.cols, p.depth, pixels, bias, out, stream);
    return;
  }
  float* partial = static_cast<float*>(workspace);
  const auto launch = [&]<class Tile>(Tile) {
    const dim3 grid(ceil_div(p.rows, Tile::kM), ceil_div(p.cols, Tile::kN), p.split.splits);
    conv2d_image_implicit_gemm_kernel<kLayout, true, Tile><<<grid, Tile::kThreads, 0, stream>>>(
        a, b, p.rows, p.cols, p.depth, pixels, FastDivisor(pixels), nullptr, partial,
        p.split.depth_per_split, p.stride());
  };
  p.tile == TileSize::kNarrow ? launch(NarrowTile{}) : launch(SmallTile{});
  DUET_LAUNCHED();
  launch_sum_images<kLayout>(partial, p.split.splits, p.stride(), p.rows * p.cols, p.cols, pixels,
                             bias, out, stream);
}

// dx of a convolution with a stride: blockIdx.x is a tile of a phase, blockIdx.y one of the
// channels, blockIdx.z a split of the phase's sum, which has an `out` of its own, `stride` from the
// next.
template <class Tile, class T, class Grad, class Weight>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kMinBlocks)
    conv2d_strided_implicit_gemm_kernel(const __grid_constant__ Grad grad,
                                        const __grid_constant__ Weight weight,
                                        const __grid_constant__ StridePhases phases,
                                        int tiles_per_phase, T* __restrict__ out, size_t stride) {
  using GatherA = GradByPhase<Grad>;
  using GatherB = WeightByPhase<Weight>;
  __shared__ GemmSmem<Tile, GatherA, GatherB> smem;
  const Conv2dProblem& d = grad.g.d;
  const Phase phase(phases, blockIdx.x / tiles_per_phase);
  const int rows = d.n * phase.positions, depth = d.k * phase.taps;
  const int m0 = blockIdx.x % tiles_per_phase * Tile::kM, n0 = blockIdx.y * Tile::kN;
  if (m0 >= rows) return;
  const int per_split = ceil_div(ceil_div(depth, Tile::kK), gridDim.z) * Tile::kK;
  const int k_begin = blockIdx.z * per_split, k_end = min(depth, k_begin + per_split);
  out += blockIdx.z * stride;
  float acc[Tile::kThreadM][Tile::kThreadN];
  gemm_mainloop<Tile, false>(GatherA{grad, phase}, GatherB{weight, phase}, m0, n0, k_begin, k_end,
                             smem, acc, nullptr);
  const int pixels = grad.g.pixels_in;
  if constexpr (Grad::kLayout == Layout::kNCHW) {
    const auto locate = [&](int m, int& image, int& pixel) { phase.pixel(m, image, pixel); };
    store_pixel_major<Tile>(acc, m0, n0, rows, d.c, pixels, locate, nullptr, out, smem.stage[0]);
  } else {
    const auto row_of = [&](int m) {
      int image, pixel;
      phase.pixel(m, image, pixel);
      return image * pixels + pixel;
    };
    store_row_major<Tile>(acc, m0, n0, rows, d.c, nullptr, out, row_of);
  }
}

/// dx phase by phase, as planned for phases.count() and the most taps of a phase. `workspace` has
/// workspace_bytes() of the plan.
template <class T, class Grad, class Weight>
void launch_strided_product(const ImageProduct& p, const Grad& grad, const Weight& weight,
                            const StridePhases& phases, T* out, void* workspace,
                            cudaStream_t stream) {
  const auto launch = [&]<class Tile>(Tile, auto* to) {
    const int tiles = ceil_div(grad.g.d.n * phases.most_positions(), Tile::kM);
    const dim3 grid(tiles * phases.count(), ceil_div(p.cols, Tile::kN), p.split.splits);
    conv2d_strided_implicit_gemm_kernel<Tile>
        <<<grid, Tile::kThreads, 0, stream>>>(grad, weight, phases, tiles, to, p.stride());
    DUET_LAUNCHED();
  };
  const auto launch_small = [&](auto* to) {
    p.tile == TileSize::kNarrow ? launch(NarrowTile{}, to) : launch(SmallTile{}, to);
  };
  if (p.split.splits == 1) {
    p.tile == TileSize::kMedium ? launch(MediumTile{}, out) : launch_small(out);
    return;
  }
  float* partial = static_cast<float*>(workspace);
  launch_small(partial);
  launch_sum_images<Grad::kLayout>(partial, p.split.splits, p.stride(), p.rows * p.cols, p.cols,
                                   grad.g.pixels_in, nullptr, out, stream);
}

/// dw as a product of `rows` filters x `cols` taps, summed over `depth` output positions.
struct FilterProduct {
  int rows = 1, cols = 1, depth = 1;
  TileSize tile = TileSize::kSmall;
  SplitPlan split;

  FilterProduct() = default;
  FilterProduct(const Conv2dProblem& d, int positions, int multiprocessors)
      : rows(d.k),
        cols(d.c * d.r * d.s),
        depth(positions),
        tile(rows <= 64 ? TileSize::kSmall : TileSize::kMedium) {
    const bool small = tile == TileSize::kSmall;
    const int tiles = ceil_div(rows, small ? SmallTile::kM : MediumTile::kM) *
                      ceil_div(cols, small ? SmallTile::kN : MediumTile::kN);
    split = plan_split(tiles, depth, SmallTile::kK, (small ? 4 : 3) * multiprocessors);
  }
  size_t workspace_bytes() const {
    return sizeof(float) * split.splits * partial_stride(rows, cols);
  }
  std::string text() const {
    return tile_text(tile) + ", " + std::to_string(split.splits) + " splits";
  }
};

// partial[split] = dw [filters][taps], then db [filters].
template <class Tile, class GatherA, class GatherB>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kMinBlocks)
    conv2d_backward_filter_implicit_gemm_kernel(const __grid_constant__ GatherA a,
                                                const __grid_constant__ GatherB b, int rows,
                                                int cols, int depth, int depth_per_split,
                                                float* __restrict__ partial) {
  __shared__ GemmSmem<Tile, GatherA, GatherB> smem;
  __shared__ float row_sums[Tile::kM];
  const int n0 = blockIdx.x * Tile::kN, m0 = blockIdx.y * Tile::kM, split = blockIdx.z;
  const int k_begin = split * depth_per_split, k_end = min(depth, k_begin + depth_per_split);
  float acc[Tile::kThreadM][Tile::kThreadN];
  gemm_mainloop<Tile, true>(a, b, m0, n0, k_begin, k_end, smem, acc, n0 == 0 ? row_sums : nullptr);
  float* out = partial + split * partial_stride(rows, cols);
  store_row_major<Tile>(acc, m0, n0, rows, cols, nullptr, out);
  if (n0 == 0)
    for (int row = threadIdx.x; row < Tile::kM; row += Tile::kThreads)
      if (m0 + row < rows) out[size_t(rows) * cols + m0 + row] = row_sums[row];
}

/// A gathers dy (rows are filters), B gathers x (rows are taps). `db` may be nullptr.
template <class GatherA, class GatherB>
void launch_filter_product(const FilterProduct& p, const GatherA& a, const GatherB& b, float* dw,
                           float* db, void* workspace, cudaStream_t stream) {
  float* partial = static_cast<float*>(workspace);
  const auto launch = [&]<class Tile>(Tile) {
    const dim3 grid(ceil_div(p.cols, Tile::kN), ceil_div(p.rows, Tile::kM), p.split.splits);
    conv2d_backward_filter_implicit_gemm_kernel<Tile><<<grid, Tile::kThreads, 0, stream>>>(
        a, b, p.rows, p.cols, p.depth, p.split.depth_per_split, partial);
  };
  p.tile == TileSize::kSmall ? launch(SmallTile{}) : launch(MediumTile{});
  DUET_LAUNCHED();
  launch_reduce_splits(partial, p.split.splits, partial_stride(p.rows, p.cols),
                       p.rows * p.cols + p.rows, p.rows * p.cols, dw, db, stream);
}

}  // namespace duet
