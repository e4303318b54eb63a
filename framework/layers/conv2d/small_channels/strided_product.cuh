// dx of a convolution as a product of images (kernels/products.cuh): one product where the stride is
// 1, else one a phase (stride_phases.cuh), all in one launch.
#pragma once

#include "device/launch.h"
#include "kernels/products.cuh"
#include "layers/conv2d/ladder/conv2d_gathers.cuh"

namespace duet {

template <class Tiles>
ImageProduct<Tiles> input_product(const Conv2dProblem& d, const StridePhases& phases,
                                  int multiprocessors, size_t workspace_limit) {
  return {d.n * d.h * d.w,          d.c,
          d.k * phases.most_taps(), multiprocessors,
          workspace_limit,          phases.unit() ? 0 : phases.count()};
}

// blockIdx.x is a tile of a phase, blockIdx.y one of the channels, blockIdx.z a split of the phase's
// sum, which has an `out` of its own, `stride` from the next.
template <Layout kLayout, class Tile, class T, class Grad, class Weight>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kMinBlocks)
    conv2d_strided_product_kernel(const __grid_constant__ Grad grad,
                                  const __grid_constant__ Weight weight,
                                  const __grid_constant__ StridePhases phases, int tiles_per_phase,
                                  int cols, T* __restrict__ out, size_t stride) {
  wait_for_primary();
  using GatherA = GradByPhase<Grad>;
  using GatherB = WeightByPhase<Weight>;
  using Smem = ProductSmem<Tile, GatherA, GatherB>;
  Smem& smem = product_smem<Smem>();
  const Conv2dProblem& d = grad.g.d;
  const Phase phase(phases, blockIdx.x / tiles_per_phase);
  const int rows = d.n * phase.positions, depth = d.k * phase.taps;
  const int m0 = blockIdx.x % tiles_per_phase * Tile::kM, n0 = blockIdx.y * Tile::kN;
  if (m0 >= rows) return;
  const int per_split = ceil_div(ceil_div(depth, Tile::kK), gridDim.z) * Tile::kK;
  const int k_begin = blockIdx.z * per_split, k_end = min(depth, k_begin + per_split);
  out += blockIdx.z * stride;
  float acc[Tile::kThreadM][Tile::kThreadN];
  compute_product<Tile, false>(GatherA{grad, phase}, GatherB{weight, phase}, m0, n0, k_begin, k_end,
                               smem, acc, nullptr);
  const int pixels = grad.g.pixels_in;
  if constexpr (kLayout == Layout::kNCHW) {
    const auto locate = [&](int m, int& image, int& pixel) { phase.pixel(m, image, pixel); };
    store_pixel_major<Tile, Smem::kScratchFloats>(acc, m0, n0, rows, cols, pixels, locate, nullptr,
                                                  out, smem.scratch());
  } else {
    const auto row_of = [&](int m) {
      int image, pixel;
      phase.pixel(m, image, pixel);
      return image * pixels + pixel;
    };
    store_row_major<Tile>(acc, m0, n0, rows, cols, nullptr, out, row_of);
  }
}

/// dx as planned by input_product(), in kLayout. `workspace` has workspace_bytes() of the plan.
template <Layout kLayout, class Tiles, class T, class Grad, class Weight>
void launch_input_product(const ImageProduct<Tiles>& p, const Grad& grad, const Weight& weight,
                          const StridePhases& phases, T* out, void* workspace,
                          cudaStream_t stream) {
  if (phases.unit()) {
    launch_image_product<kLayout>(p, grad, weight, grad.g.pixels_in, nullptr, out, workspace,
                                  stream);
    return;
  }
  const auto launch = [&]<class Tile>(Tile, auto* to) {
    const int tiles = ceil_div(grad.g.d.n * phases.most_positions(), Tile::kM);
    const dim3 grid(tiles * phases.count(), ceil_div(p.cols, Tile::kN), p.split.splits);
    launch_product_kernel<ProductSmem<Tile, GradByPhase<Grad>, WeightByPhase<Weight>>>(
        conv2d_strided_product_kernel<kLayout, Tile, std::remove_pointer_t<decltype(to)>, Grad,
                                      Weight>,
        grid, Tile::kThreads, stream, grad, weight, phases, tiles, p.cols, to, p.stride());
  };
  const auto launch_small = [&](auto* to) {
    p.tile == TileSize::kNarrow ? launch(typename Tiles::Narrow{}, to)
                                : launch(typename Tiles::Small{}, to);
  };
  if (p.split.splits == 1) {
    p.tile == TileSize::kMedium ? launch(typename Tiles::Medium{}, out) : launch_small(out);
    return;
  }
  float* partial = static_cast<float*>(workspace);
  launch_small(partial);
  launch_sum_images<kLayout>(partial, p.split.splits, p.stride(), p.rows * p.cols, p.cols,
                             grad.g.pixels_in, nullptr, out, stream);
}

}  // namespace duet
