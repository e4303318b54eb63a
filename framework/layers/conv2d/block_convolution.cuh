// Forward of a 3x3 convolution of stride 1 in tf32 and planes whose images are staged as ImageBlocks: by kernels/wgmma_blocks.cuh, of
// what backward_filter (kernels/wgmma_filter.cuh) reads as well.
#pragma once

#include "kernels/wgmma_blocks.cuh"
#include "layers/conv2d/block_staging.cuh"

namespace duet {

class BlockProduct {
 public:
  BlockProduct(const Conv2dProblem& d, int multiprocessors)
      : problem_(d),
        wide_(d.k > kPanel),
        units_(d.n, d.p, d.q, rows(), std::max(1, multiprocessors / ceil_div(d.k, channels()))) {}

  /// REQUIRES: halo_convolution_unsupported() has no reason.
  static bool possible(const Conv2dProblem& d) {
    return d.math == Math::kTF32 && d.layout == Layout::kNCHW && d.r == 3 && d.s == 3 &&
           d.dilation_h == 1 && d.dilation_w == 1;
  }
  /// Whether it is possible and little of what is computed is not wanted.
  bool worthwhile() const {
    if (!possible(problem_) || !units_.wide()) return false;
    const double wanted = double(problem_.n) * problem_.k * problem_.p * problem_.q;
    const double all =
        double(units_.all) * ImageBlocks::kImages * 2 * rows() * round_up(problem_.k, channels());
    return wanted >= 0.7 * all;
  }
  /// An estimate, as WgmmaPlan's: a block's last tile, of up to four units, takes half as long, and each something around it.
  double cycles() const {
    const double tile = ceil_div(problem_.c, 8) * 9 * 256., around = 6000;
    const double rest = units_.rest == 0 ? 0 : around + tile * (units_.rest > 4 ? 1 : 0.5);
    return units_.rounds * (tile + around) + rest;
  }
  std::string text() const {
    return "tile " + std::string(wide_ ? "256x128" : "512x64") + " of eight images, wgmma tf32";
  }

  size_t weight_bytes() const {
    return sizeof(float) * BlockWeightPart::elements(problem_, channels());
  }
  BlockWeightPart weight_part(const float* w, float* to) const {
    return {w, problem_, channels(), to};
  }
  template <class Result>
  void run(const float* x, const float* weights, const Result& result, cudaStream_t stream) const {
    const Conv2dProblem& d = problem_;
    const PlanarPatches patches{x, d.n, d.c, d.h, d.w, d.pad_h, d.pad_w};
    const auto run_by = [&]<class Tile>(Tile) {
      launch_wgmma_blocks<Tile>(patches, weights, units_, d.k, result, stream);
    };
    wide_ ? run_by(Wide{}) : run_by(Narrow{});
  }

 private:
  using Wide = BlockTile<128, 2>;
  using Narrow = BlockTile<64, 4>;
  int channels() const { return wide_ ? Wide::kN : Narrow::kN; }
  int rows() const { return wide_ ? Wide::kRows : Narrow::kRows; }

  const Conv2dProblem problem_;
  const bool wide_;
  const BlockUnits units_;
};

}  // namespace duet
