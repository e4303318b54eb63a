// conv2d custom_wgmma_halo: implicit GEMM on Hopper's tensor cores whose tile of the image is brought
//           once for all taps; bf16.
// Mapping:  block = 128 positions x 128 or 64 columns of the product (kernels/wgmma_halo.cuh). Positions
//           follow each other through rows and images, and the zeros of the padding lie once between
//           two of them; those without a result are computed and not stored.
// Traffic:  as custom_wgmma, which brings a tile once a tap.
// Limits:   those of custom_wgmma; stride 1, more than one tap, no more padding than taps reach, rows
//           that leave room for a tile in shared memory; no backward_filter.
// Measured: H200, the kernel alone beside custom_wgmma's, 3x3, padding 1, NHWC: 64x64x56x56 -> 64
//           36.7 us (48.3), 8x64x224x224 -> 64 83 us (92), backward_data of 64x512x7x7 28.4 us (30.9);
//           with 128 and 256 channels at 28x28 and 14x14 within 4% of each other.
#include "kernels/wgmma_halo.cuh"
#include "layers/conv2d/conv2d.h"
#include "layers/conv2d/wgmma_convolution.cuh"

namespace duet {
namespace {

using SmallTile = HaloTile<1, 64, 4, 2>;  // so many columns, stages, blocks on a multiprocessor
using LargeTile = HaloTile<1, 128, 3, 2>;
using AloneTile = HaloTile<1, 128, 6, 1>;

/// How a pass of a convolution becomes a product: the image that its taps read and what results.
struct HaloProblem {
  int images, height, width, channels, columns, out_height, out_width;
  TapAxis h, w;

  /// `d` with its channels and filters padded.
  HaloProblem(const Conv2dProblem& d, Pass pass)
      : images(d.n),
        height(pass == Pass::kForward ? d.h : d.p),
        width(pass == Pass::kForward ? d.w : d.q),
        channels(pass == Pass::kForward ? d.c : d.k),
        columns(pass == Pass::kForward ? d.k : d.c),
        out_height(pass == Pass::kForward ? d.p : d.h),
        out_width(pass == Pass::kForward ? d.q : d.w),
        h{d.r, 1, pass == Pass::kForward ? -d.pad_h : d.pad_h,
          pass == Pass::kForward ? d.dilation_h : -d.dilation_h},
        w{d.s, 1, pass == Pass::kForward ? -d.pad_w : d.pad_w,
          pass == Pass::kForward ? d.dilation_w : -d.dilation_w} {}

  HaloGeometry geometry(int tile_rows) const {
    return {images, height, width, channels, h, w, out_height, out_width, tile_rows};
  }
  template <class Tile>
  bool fits() const {
    constexpr size_t kShared = 228 * 1024, kOfSystem = 1024;  // of a multiprocessor, and of a block
    const HaloGeometry g = geometry(Tile::kRows);
    return g.rows <= kMostPositions &&
           halo_smem_bytes<Tile>(g.rows, g.blocks) <= kShared / Tile::Slice::kBlocks - kOfSystem;
  }
  bool fits() const { return fits<SmallTile>() || fits<AloneTile>(); }
  /// Calls visit(tile). REQUIRES: fits().
  template <class Visit>
  void with_tile(int multiprocessors, Visit visit) const {
    const int tiles = ceil_div(geometry(AloneTile::kRows).positions(), AloneTile::kRows) *
                      ceil_div(columns, AloneTile::Slice::kN);
    if ((columns <= SmallTile::Slice::kN || !fits<AloneTile>()) && fits<SmallTile>())
      return visit(SmallTile{});
    tiles > multiprocessors&& fits<LargeTile>() ? visit(LargeTile{}) : visit(AloneTile{});
  }
};

std::optional<std::string> unsupported(const Conv2dProblem& d, Pass pass) {
  if (pass == Pass::kBackwardFilter) return "has no backward_filter; custom_wgmma does it";
  if (d.math != Math::kBF16) {
    return "multiplies in bf16, and 'math' is " + std::string(to_string(d.math));
  }
  if (d.stride_h != 1 || d.stride_w != 1) return "takes strides of 1";
  if (d.r * d.s == 1) return "brings a tile once for all taps, and here is one";
  if (d.pad_h > (d.r - 1) * d.dilation_h || d.pad_w > (d.s - 1) * d.dilation_w) {
    return "takes as much padding as the taps reach, and no more";
  }
  if (auto reason = wgmma_convolution_unsupported(d, pass)) return reason;
  const HaloProblem problem(d, pass);
  if (!problem.fits()) {
    return "has no room in shared memory for the rows of a tile and those around it; take narrower "
           "images";
  }
  return {};
}

/// Of 64 columns and fewer, where a tile of the image is most of what custom_wgmma brings.
bool preferred(const Conv2dProblem& d, Pass pass, size_t) {
  const HaloProblem problem(d, pass);
  const HaloGeometry g = problem.geometry(SmallTile::kRows);
  const double results = double(problem.images) * problem.out_height * problem.out_width;
  return problem.columns <= SmallTile::Slice::kN && results >= 0.85 * g.positions();
}

class Conv2dCustomWgmmaHalo : public Conv2dImpl, StagedConvolution<bfloat16> {
 public:
  explicit Conv2dCustomWgmmaHalo(const Conv2dProblem& problem)
      : Conv2dImpl(problem), StagedConvolution(problem) {}

  size_t workspace_bytes(Pass pass) const override { return staged_bytes(pass); }
  std::string detail(Pass pass) const override {
    std::string text;
    HaloProblem(padded_, pass).with_tile(multiprocessor_count(), [&]<class Tile>(Tile) {
      text = "tile " + std::to_string(Tile::kRows) + "x" + std::to_string(Tile::Slice::kN) +
             ", wgmma bf16";
    });
    return text;
  }

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) override {
    const auto [image, filters] = stage_x_and_weights(run, x, w);
    launch_product(Pass::kForward, image, b.data<float>(), y, run,
                   [&, weights = filters]<class Tile>(Tile) {
                     return WeightByRow<bfloat16>(weights, padded_.k, geometry_.taps, padded_.c,
                                                  Tile::Slice::kN);
                   });
  }
  void backward_data(const Run& run, const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    const auto [image, filters] = stage_dy_and_weights(run, dy, nullptr, w, false);
    launch_product(
        Pass::kBackwardData, image, nullptr, dx, run, [&, weights = filters]<class Tile>(Tile) {
          return WeightByChannel(weights, StagedConvolution::problem_.k, geometry_.taps, padded_.c);
        });
  }

 private:
  template <class Weights>
  void launch_product(Pass pass, const bfloat16* image, const float* bias, const Tensor& out,
                      const Run& run, Weights weights_of) const {
    const HaloProblem p(padded_, pass);
    const int columns = pass == Pass::kForward ? Conv2dImpl::problem_.k : Conv2dImpl::problem_.c;
    p.with_tile(multiprocessor_count(), [&]<class Tile>(Tile tile) {
      const HaloImages a(p.geometry(Tile::kRows), image);
      by_layout([&]<Layout kLayout>(std::integral_constant<Layout, kLayout>) {
        launch_wgmma_halo<Tile>(a, weights_of(tile), columns,
                                WgmmaResult<kLayout, bfloat16>{out.data<bfloat16>(), bias, columns,
                                                               p.out_height * p.out_width},
                                run.stream());
      });
    });
  }
};

}  // namespace

ImplEntry<Conv2dProblem> conv2d_custom_wgmma_halo() {
  auto entry =
      impl_entry<Conv2dCustomWgmmaHalo>("custom_wgmma_halo", unsupported, {DType::kBFloat16});
  entry.preferred = preferred;
  return entry;
}

}  // namespace duet
