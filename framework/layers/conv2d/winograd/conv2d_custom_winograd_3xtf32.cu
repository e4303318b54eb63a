// conv2d custom_winograd_3xtf32: custom_winograd for fp32, its 16 products on tensor cores, each as three of tf32
//           (winograd_mma_block.cuh); where channels are many F(4x4, 3x3), whose 36 products are matrices in memory
//           (winograd_matrices.cuh), as detail() says.
// Mapping:  block = 512 threads, warp = 1 of 16 points x 32 tiles x 64 filters; backward_data likewise, or 32
//           tiles of one image x 64 channels; backward_filter: 32 channels x 64 filters, split along the tiles. By
//           matrices: a kernel that transforms, one that multiplies (wgmma_product.cuh) and one that transforms back.
// Traffic:  as custom_winograd; by matrices each tensor once, and 2.25 times x, y or dy, and 4 times the filters or dw,
//           written and read.
// Limits:   as custom_winograd, and math fp32.
// Measured: H200, forward, backward_data and backward_filter with db: 64x64x56x56 -> 64, padded, 169 us, 169 and 191
//           (custom_wgmma_3xtf32 240, 234 and 398); 64x64x13x13 -> 128 31.8, 26.6 and 26.5 (20.0, 30.3 and 37.7).
//           Forward and backward_data by matrices, 8x512x28x28 -> 512, padded: 137 and 141 us (329 and 335).
#include <algorithm>

#include "layers/conv2d/winograd/conv2d_winograd.cuh"
#include "layers/conv2d/winograd/winograd_matrices.h"

namespace duet {
namespace {

/// Whether estimates say that matrices in memory take less time than kernels that keep 16 points in registers, these at
/// the rate of their products on an H200.
bool by_matrices(const Conv2dProblem& d, Pass pass, size_t workspace_limit) {
  const double tiles = double(d.n) * ceil_div(d.p, 2) * ceil_div(d.q, 2);
  const double fused = 8 + 2 * 16 * tiles * d.c * d.k / 35e6;
  return winograd_matrices_microseconds(d, pass, workspace_limit) < 0.85 * fused;
}

/// Each pass by what takes the least time.
class Conv2dWinogradInParts : public Conv2dImpl {
 public:
  Conv2dWinogradInParts(const Conv2dProblem& d, const Context& context)
      : Conv2dImpl(d),
        fused_(std::make_unique<Conv2dWinograd<true>>(d)),
        matrices_(winograd_matrices(d, context.workspace_limit())) {
    for (Pass pass : three_passes())
      if (by_matrices(d, pass, context.workspace_limit())) by_matrices_.push_back(pass);
  }

  void prepare(Pass pass, Context& context) override { of(pass).prepare(pass, context); }
  size_t workspace_bytes(Pass pass) const override { return of(pass).workspace_bytes(pass); }
  std::string detail(Pass pass) const override { return of(pass).detail(pass); }

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) override {
    of(Pass::kForward).forward(run, x, w, b, y);
  }
  void backward_data(const Run& run, const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    of(Pass::kBackwardData).backward_data(run, dy, w, dx);
  }
  void backward_filter(const Run& run, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) override {
    of(Pass::kBackwardFilter).backward_filter(run, x, dy, dw, db);
  }

 private:
  Conv2dImpl& of(Pass pass) const {
    const bool found = std::count(by_matrices_.begin(), by_matrices_.end(), pass) > 0;
    return found ? *matrices_ : *fused_;
  }

  const std::unique_ptr<Conv2dImpl> fused_, matrices_;
  std::vector<Pass> by_matrices_;
};

std::optional<std::string> unsupported(const Conv2dProblem& problem, Pass pass) {
  if (auto reason = fp32_only(problem, pass)) return reason;
  return conv2d_winograd_unsupported<true>(problem, pass);
}

/// Where it was measured to be the fastest: by matrices in memory where estimates say so; in backward_filter also in sums
/// over tiles up to the many products for which custom_wgmma_3xtf32's staging is little; and of few channels, where patches
/// are many and that stages much.
bool preferred(const Conv2dProblem& d, Pass pass, size_t limit) {
  if (by_matrices(d, pass, limit) && winograd_matrices_preferred_to_wgmma(d, pass, limit))
    return true;
  const double tiles = double(d.n) * ceil_div(d.p, 2) * ceil_div(d.q, 2);
  if (pass == Pass::kBackwardFilter) {
    return (d.c <= 128 && d.k <= 128) || tiles * d.c * d.k * 36 <= 5e9;
  }
  return d.c <= 64 && d.k <= 64 && tiles >= 1 << 15;
}

}  // namespace

ImplEntry<Conv2dProblem> conv2d_custom_winograd_3xtf32() {
  auto entry = impl_entry<Conv2dWinogradInParts>("custom_winograd_3xtf32", unsupported);
  entry.preferred = preferred;
  return entry;
}

}  // namespace duet
