// conv2d_pool_relu by F(2x2, 3x3), for custom_winograd and custom_winograd_3xtf32.
#pragma once

#include "layers/conv2d/winograd/winograd_products.cuh"
#include "layers/conv2d_pool_relu/conv2d_pool_relu_general.h"

namespace duet {

/// kInParts: each product as three of tf32.
template <bool kInParts>
class Conv2dPoolReluWinograd : public Conv2dPoolReluImpl {
 public:
  explicit Conv2dPoolReluWinograd(const Conv2dPoolReluProblem& problem)
      : Conv2dPoolReluWinograd(problem, multiprocessor_count()) {}

  void prepare(Pass pass, Context& context) override {
    if (pass == Pass::kForward) {
      forward_.prepare();
    } else if (pass == Pass::kBackwardFilter) {
      backward_filter_.prepare();
    } else if (patch_sum_.fits()) {
      patch_sum_.prepare();
    } else {
      fused_ = make_custom_fused(problem_);
      fused_->prepare(pass, context);
    }
  }

  size_t workspace_bytes(Pass pass) const override {
    if (pass == Pass::kForward) return forward_.workspace_bytes();
    if (pass == Pass::kBackwardFilter) return backward_filter_.workspace_bytes();
    return fused_ ? fused_->workspace_bytes(pass) : patch_sum_.workspace_bytes();
  }
  size_t state_bytes() const override { return packed_argmax_bytes(conv_); }
  std::string detail(Pass pass) const override {
    if (pass == Pass::kForward) return forward_.text();
    if (pass == Pass::kBackwardFilter) return backward_filter_.text();
    return fused_ ? "custom_fused: " + fused_->detail(pass) : patch_sum_.text();
  }

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y,
               const Tensor& state) override {
    forward_.run(x.data<float>(), WinogradFilters::of_forward(w.data<float>(), conv_),
                 {b.data<float>(), y.data<float>(), state.data<uint32_t>()}, run.workspace,
                 run.stream());
  }

  void backward_data(const Run& run, const Tensor& y, const Tensor& dy, const Tensor& state,
                     const Tensor& w, const Tensor& dx) override {
    if (fused_) return fused_->backward_data(run, y, dy, state, w, dx);
    patch_sum_.run({dy.data<float>(), state.data<uint32_t>()}, w.data<float>(), dx.data<float>(),
                   run.workspace, run.stream());
  }

  void backward_filter(const Run& run, const Tensor& x, const Tensor&, const Tensor& dy,
                       const Tensor& state, const Tensor& dw, const Tensor& db) override {
    backward_filter_.run(x.data<float>(), {dy.data<float>(), state.data<uint32_t>()},
                         dw.data<float>(), db.data<float>(), run.workspace, run.stream());
  }

  /// Of this problem on this GPU.
  std::optional<std::string> unsupported(Pass pass) const {
    if (pass == Pass::kForward) return forward_.unsupported();
    if (pass == Pass::kBackwardFilter) return backward_filter_.unsupported();
    if (patch_sum_.fits()) return patch_sum_.unsupported();
    if (kInParts) return "sums the patches of images of up to 32 windows";
    return {};
  }

 private:
  Conv2dPoolReluWinograd(const Conv2dPoolReluProblem& problem, int multiprocessors)
      : Conv2dPoolReluImpl(problem),
        forward_(conv_, multiprocessors),
        patch_sum_(conv_, multiprocessors),
        backward_filter_(conv_, multiprocessors) {}

  const Conv2dProblem& conv_ = problem_.conv;
  const WinogradImageProduct<PooledOutput, kInParts> forward_;
  const WinogradPatchSum<PooledGradient, kInParts> patch_sum_;
  const WinogradFilterGradient<PooledGradient, kInParts> backward_filter_;
  std::unique_ptr<Conv2dPoolReluImpl> fused_;  // where the image does not fit a block
};

template <bool kInParts>
std::optional<std::string> conv2d_pool_relu_winograd_unsupported(
    const Conv2dPoolReluProblem& problem, Pass pass) {
  if (auto reason = custom_fused_unsupported(problem, pass)) return reason;
  if (auto reason = winograd_unsupported(problem.conv, pass)) return reason;
  if (!gpu_available()) return {};
  return Conv2dPoolReluWinograd<kInParts>(problem).unsupported(pass);
}

}  // namespace duet
