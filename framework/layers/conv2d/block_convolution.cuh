// Passes of a 3x3 convolution of stride 1 in tf32 and planes, pooled by 2x2 windows, as products of images eight side by side: forward by
// kernels/wgmma_blocks.cuh, backward_data by kernels/wgmma_windows.cuh. Only weights are staged.
#pragma once

#include "kernels/wgmma_windows.cuh"
#include "layers/conv2d/block_staging.cuh"

namespace duet {

/// REQUIRES of `d` in all that follows: rows and columns of outputs are whole windows, and WgmmaConvolution can do it.
inline bool block_product_possible(const Conv2dProblem& d) {
  return d.math == Math::kTF32 && d.layout == Layout::kNCHW && d.r == 3 && d.s == 3 &&
         d.stride_h == 1 && d.stride_w == 1 && d.dilation_h == 1 && d.dilation_w == 1 &&
         d.pad_h <= 2 && d.pad_w <= 2;
}

class BlockForward {
 public:
  BlockForward(const Conv2dProblem& d, int multiprocessors)
      : problem_(d),
        wide_(d.k > kPanel),
        units_(d.n, d.p, d.q, rows(), Wide::kUnits,
               std::max(1, multiprocessors / ceil_div(d.k, channels()))) {}

  /// Whether little of what is computed is not wanted.
  bool worthwhile() const {
    const double wanted = double(problem_.n) * problem_.k * problem_.p * problem_.q;
    const double all =
        double(units_.all) * ImageBlocks::kImages * 2 * rows() * round_up(problem_.k, channels());
    return units_.wide() && wanted >= 0.7 * all;
  }
  std::string text() const {
    return "tile " + std::string(wide_ ? "256x128" : "512x64") + " of eight images, wgmma tf32";
  }

  size_t workspace_bytes() const {
    return sizeof(float) * BlockWeightPart::elements(problem_, false, channels());
  }
  template <class Result>
  void run(const Run& run, const Tensor& x, const Tensor& w, const Result& result) const {
    const Conv2dProblem& d = problem_;
    auto* const weights = static_cast<float*>(run.workspace);
    launch_staging(BlockWeightPart(w.data<float>(), d, false, channels(), weights), NothingStaged{},
                   run.stream());
    const PlanarPatches patches{x.data<float>(), d.n, d.c, d.h, d.w, d.pad_h, d.pad_w};
    const auto run_by = [&]<class Tile>(Tile) {
      launch_wgmma_blocks<Tile>(patches, weights, units_, d.k, result, run.stream());
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

class BlockBackwardData {
 public:
  BlockBackwardData(const Conv2dProblem& d, int multiprocessors)
      : problem_(d),
        above_(d.pad_h % 2),
        left_(d.pad_w % 2),
        units_(d.n, above_ + std::min(d.h, d.p + 2 - d.pad_h),
               left_ + std::min(d.w, d.q + 2 - d.pad_w), Tile::kRows, Tile::kUnits,
               std::max(1, multiprocessors / ceil_div(d.c, Tile::kN))) {}

  bool worthwhile() const {
    const double wanted = double(problem_.n) * problem_.c * problem_.h * problem_.w;
    const double all =
        double(units_.all) * ImageBlocks::kImages * 4 * round_up(problem_.c, Tile::kN);
    return units_.wide() && wanted >= 0.7 * all;
  }
  std::string text() const { return "tile 384x64 of eight images, wgmma tf32"; }

  size_t workspace_bytes() const {
    return sizeof(float) * BlockWeightPart::elements(problem_, true, Tile::kN);
  }
  void run(const Run& run, const Tensor& dy, const uint32_t* argmax, const Tensor& w,
           const Tensor& dx) const {
    const Conv2dProblem& d = problem_;
    auto* const weights = static_cast<float*>(run.workspace);
    launch_staging(BlockWeightPart(w.data<float>(), d, true, Tile::kN, weights), NothingStaged{},
                   run.stream());
    launch_wgmma_windows(
        {dy.data<float>(), argmax, d.n, d.k, d.p / 2, d.q / 2, d.pad_h / 2 - 1, d.pad_w / 2 - 1},
        weights, units_, {dx.data<float>(), d.n, d.c, d.h, d.w, above_, left_}, run.stream());
  }

 private:
  using Tile = WindowTile;
  const Conv2dProblem problem_;
  const int above_, left_;
  const BlockUnits units_;
};

}  // namespace duet
