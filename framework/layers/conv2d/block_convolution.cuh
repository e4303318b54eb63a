// A 3x3 convolution of stride 1 in tf32 and planes whose images are staged as ImageBlocks: forward and backward_data by
// kernels/wgmma_blocks.cuh, of what backward_filter (kernels/wgmma_filter.cuh) reads as well.
#pragma once

#include "kernels/wgmma_blocks.cuh"
#include "layers/conv2d/block_staging.cuh"

namespace duet {

/// x as ImageBlocks, for passes in which a row has up to `columns` results.
inline ImageBlocks image_blocks(const Conv2dProblem& d, int columns) {
  return {d.n, d.c, d.p + d.r - 1, columns + d.s - 1, d.pad_h, d.pad_w};
}
inline ImageBlocks gradient_blocks(const Conv2dProblem& d, int columns) {
  return {d.n, d.k, d.p, columns};
}

/// forward or backward_data as a product of blocks.
class BlockProduct {
 public:
  BlockProduct(const Conv2dProblem& d, Pass pass, int multiprocessors)
      : problem_(d),
        forward_(pass == Pass::kForward),
        rows_(forward_ ? d.k : d.c),
        wide_(rows_ > kPanel),
        // Of dx, as far as an output reaches.
        units_(d.n, forward_ ? d.p : std::min(d.h, d.p + kReach - d.pad_h),
               forward_ ? d.q : std::min(d.w, d.q + kReach - d.pad_w), wide_ ? 2 : 4,
               std::max(1, multiprocessors / ceil_div(rows_, tile_rows()))) {}

  /// REQUIRES: halo_convolution_unsupported() has no reason.
  static bool possible(const Conv2dProblem& d) {
    return d.math == Math::kTF32 && d.layout == Layout::kNCHW && d.r == 3 && d.s == 3 &&
           d.dilation_h == 1 && d.dilation_w == 1;
  }
  /// Whether it is possible and little of what is computed is not wanted.
  bool worthwhile() const {
    if (!possible(problem_) || !units_.wide()) return false;
    const double wanted = double(problem_.n) * rows_ * (forward_ ? problem_.p : problem_.h) *
                          (forward_ ? problem_.q : problem_.w);
    const double all = double(units_.all) * ImageBlocks::kImages * 2 * (wide_ ? 2 : 4) *
                       round_up(rows_, tile_rows());
    return wanted >= 0.7 * all;
  }
  /// An estimate, as WgmmaPlan's: a block's last tile, of up to four units, takes half as long, and each something around it.
  double cycles() const {
    const int channels = forward_ ? problem_.c : problem_.k;
    const double tile = ceil_div(channels, 8) * 9 * 256., around = 3000;
    const double rest = units_.rest == 0 ? 0 : around + tile * (units_.rest > 4 ? 1 : 0.5);
    return units_.rounds * (tile + around) + rest;
  }
  std::string text() const {
    return "tile " + std::string(wide_ ? "256x128" : "512x64") + " of eight images, wgmma tf32";
  }

  size_t weight_bytes() const {
    return sizeof(float) *
           BlockWeightPart::elements(rows_, forward_ ? problem_.c : problem_.k, tile_rows());
  }
  BlockWeightPart weight_part(const float* w, float* to) const {
    return {w, problem_, !forward_, tile_rows(), to};
  }
  /// `images` as image_blocks() or gradient_blocks() say; what is around them is zero.
  template <class Result>
  void run(const float* from, const ImageBlocks& images, const float* weights, const Result& result,
           cudaStream_t stream) const {
    const auto run_by = [&]<class Tile>(Tile) {
      const BlockPatches patches(from, images, forward_ ? 0 : problem_.pad_h - kReach,
                                 forward_ ? 0 : problem_.pad_w - kReach, Tile::kPatchRows);
      launch_wgmma_blocks<Tile>(patches, weights, units_, rows_, result, stream);
    };
    wide_ ? run_by(BlockTile<128, 2>{}) : run_by(BlockTile<64, 4>{});
  }

 private:
  static constexpr int kReach = 2;  // of three taps
  int tile_rows() const { return wide_ ? 128 : kPanel; }

  const Conv2dProblem problem_;
  const bool forward_;
  const int rows_;  // output channels
  const bool wide_;
  const BlockUnits units_;
};

}  // namespace duet
