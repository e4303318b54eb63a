// conv2d_pool_relu custom_wgmma_3xtf32: backward_filter in fp32 by Hopper's wgmma, each product as three of tf32; the other passes
//           are custom_fused's.
// Mapping:  kernels/wgmma_filter.cuh, in tiles of 64 filters x 32 channels x nine taps, since sums are kept twice.
// Traffic:  x once for every 64 filters, dy and its argmax once for every 32 channels, as they lie.
// Limits:   those of custom_fused; math fp32, 3x3, stride 1, dilation 1, more than 16 channels and filters; compute capability 9.0.
#include "layers/conv2d/halo_convolution.cuh"
#include "layers/conv2d/written_filter.cuh"
#include "layers/conv2d_pool_relu/conv2d_pool_relu_general.h"

namespace duet {
namespace {

/// Of an odd last row or column nothing is pooled, and no gradient comes from there.
Conv2dProblem pooled_part(Conv2dProblem d) {
  d.p = d.p / 2 * 2;
  d.q = d.q / 2 * 2;
  return d;
}

class Conv2dPoolReluCustomWgmma3xTf32 : public Conv2dPoolReluImpl {
 public:
  Conv2dPoolReluCustomWgmma3xTf32(const Conv2dPoolReluProblem& problem, const Context& context)
      : Conv2dPoolReluImpl(problem),
        filter_(pooled_part(problem.conv), context.workspace_limit()),
        fused_(make_custom_fused(problem)) {}

  void prepare(Pass pass, Context& context) override {
    if (pass != Pass::kBackwardFilter) fused_->prepare(pass, context);
  }
  size_t workspace_bytes(Pass pass) const override {
    return pass == Pass::kBackwardFilter ? filter_.workspace_bytes()
                                         : fused_->workspace_bytes(pass);
  }
  size_t state_bytes() const override { return packed_argmax_bytes(problem_.conv); }
  std::string detail(Pass pass) const override {
    return pass == Pass::kBackwardFilter ? filter_.text() : "custom_fused: " + fused_->detail(pass);
  }

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y,
               const Tensor& state) override {
    fused_->forward(run, x, w, b, y, state);
  }
  void backward_data(const Run& run, const Tensor& y, const Tensor& dy, const Tensor& state,
                     const Tensor& w, const Tensor& dx) override {
    fused_->backward_data(run, y, dy, state, w, dx);
  }
  void backward_filter(const Run& run, const Tensor& x, const Tensor&, const Tensor& dy,
                       const Tensor& state, const Tensor& dw, const Tensor& db) override {
    filter_.run(run, x, dy, state.data<uint32_t>(), dw.data<float>(), db.data<float>());
  }

 private:
  const WrittenFilter<2> filter_;
  const std::unique_ptr<Conv2dPoolReluImpl> fused_;
};

std::optional<std::string> unsupported(const Conv2dPoolReluProblem& problem, Pass pass) {
  if (auto reason = fp32_only(problem.conv, pass)) return reason;
  if (auto reason = custom_fused_unsupported(problem, pass)) return reason;
  if (pass != Pass::kBackwardFilter) return {};
  Conv2dProblem of_part = pooled_part(problem.conv);
  of_part.math = Math::kTF32;
  return halo_convolution_unsupported(of_part, pass);
}

}  // namespace

ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_custom_wgmma_3xtf32() {
  return impl_entry<Conv2dPoolReluCustomWgmma3xTf32>("custom_wgmma_3xtf32", unsupported);
}

}  // namespace duet
