// Passes of a 3x3 convolution of stride 1 of float32 planes, pooled by 2x2 windows, as products in tf32 or fp32 of images eight side by
// side: forward by kernels/wgmma_blocks.cuh, backward_data by kernels/wgmma_windows.cuh. Only weights are staged.
#pragma once

#include "kernels/wgmma_windows.cuh"
#include "layers/conv2d/block_staging.cuh"

namespace duet {

/// REQUIRES of problems in what follows: rows and columns of outputs are whole windows.
inline std::optional<std::string> block_product_unsupported(const Conv2dProblem& d) {
  if (auto reason = ungrouped_unsupported(d)) return reason;
  if (d.layout != Layout::kNCHW) return "takes nchw";
  if (d.r != 3 || d.s != 3) return "takes 3x3 filters";
  if (d.stride_h != 1 || d.stride_w != 1 || d.dilation_h != 1 || d.dilation_w != 1) {
    return "takes strides and dilations of 1";
  }
  if (d.pad_h > 2 || d.pad_w > 2) return "takes a padding of 2 at most";
  return {};
}

class BlockForward {
  using Wide = BlockTile<128, 2>;
  using Narrow = BlockTile<64, 4>;
  using Split = BlockTile<64, 2, true>;
  static_assert(Wide::kUnits == Narrow::kUnits && Wide::kUnits == Split::kUnits);
  template <class F>
  auto with_tile(F f) const {
    if (problem_.math == Math::kFP32) return f(Split{});
    return problem_.k > kPanel ? f(Wide{}) : f(Narrow{});
  }

 public:
  BlockForward(const Conv2dProblem& d, int multiprocessors)
      : problem_(d),
        units_(d.n, d.p, d.q, rows(), Wide::kUnits,
               std::max(1, multiprocessors / ceil_div(d.k, channels()))) {}

  /// Whether little of what is computed is not wanted.
  bool worthwhile() const {
    const double wanted = double(problem_.n) * problem_.k * problem_.p * problem_.q;
    const double all =
        double(units_.all) * ImageBlocks::kImages * 2 * rows() * round_up(problem_.k, channels());
    return units_.wide() && wanted >= 0.7 * all;
  }
  bool possible() const { return units_.wide(); }
  std::string text() const {
    return with_tile([]<class Tile>(Tile) {
      return "tile " + std::to_string(Tile::kUnits * Tile::kRows * 16) + "x" +
             std::to_string(Tile::kN) + " of eight images, wgmma " +
             (Tile::kParts == 2 ? "3xtf32" : "tf32");
    });
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
    with_tile([&]<class Tile>(Tile) {
      launch_wgmma_blocks<Tile>(patches, weights, units_, d.k, result, run.stream());
    });
  }

 private:
  int channels() const {
    return with_tile([]<class Tile>(Tile) { return Tile::kN; });
  }
  int rows() const {
    return with_tile([]<class Tile>(Tile) { return Tile::kRows; });
  }

  const Conv2dProblem problem_;
  const BlockUnits units_;
};

class BlockBackwardData {
  static constexpr int kRows = WindowTile<false>::kRows, kChannels = WindowTile<false>::kN;
  template <class F>
  auto with_tile(F f) const {
    return problem_.math == Math::kFP32 ? f(WindowTile<true>{}) : f(WindowTile<false>{});
  }

 public:
  BlockBackwardData(const Conv2dProblem& d, int multiprocessors)
      : problem_(d),
        above_(d.pad_h % 2),
        left_(d.pad_w % 2),
        units_(d.n, above_ + std::min(d.h, d.p + 2 - d.pad_h),
               left_ + std::min(d.w, d.q + 2 - d.pad_w), kRows,
               with_tile([]<class Tile>(Tile) { return Tile::kUnits; }),
               std::max(1, multiprocessors / ceil_div(d.c, kChannels))) {}

  bool possible() const { return units_.wide(); }
  bool worthwhile() const {
    const double wanted = double(problem_.n) * problem_.c * problem_.h * problem_.w;
    const double all =
        double(units_.all) * ImageBlocks::kImages * 2 * kRows * round_up(problem_.c, kChannels);
    return units_.wide() && wanted >= 0.7 * all;
  }
  std::string text() const {
    return with_tile([]<class Tile>(Tile) {
      return "tile " + std::to_string(Tile::kUnits * Tile::kRows * 16) + "x" +
             std::to_string(Tile::kN) + " of eight images, wgmma " +
             (Tile::kParts == 2 ? "3xtf32" : "tf32");
    });
  }

  size_t workspace_bytes() const {
    return sizeof(float) * BlockWeightPart::elements(problem_, true, kChannels);
  }
  void run(const Run& run, const Tensor& dy, const uint32_t* argmax, const Tensor& w,
           const Tensor& dx) const {
    const Conv2dProblem& d = problem_;
    auto* const weights = static_cast<float*>(run.workspace);
    launch_staging(BlockWeightPart(w.data<float>(), d, true, kChannels, weights), NothingStaged{},
                   run.stream());
    with_tile([&]<class Tile>(Tile) {
      launch_wgmma_windows<Tile>(
          {dy.data<float>(), argmax, d.n, d.k, d.p / 2, d.q / 2, d.pad_h / 2 - 1, d.pad_w / 2 - 1},
          weights, units_, {dx.data<float>(), d.n, d.c, d.h, d.w, above_, left_}, run.stream());
    });
  }

 private:
  const Conv2dProblem problem_;
  const int above_, left_;
  const BlockUnits units_;
};

}  // namespace duet
