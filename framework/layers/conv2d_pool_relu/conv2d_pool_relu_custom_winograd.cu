// conv2d_pool_relu custom_winograd: F(2x2, 3x3) whose output tile is the pooling window: 16
//           multiplications for 36, and pooled in place. backward_data of larger images, whose
//           windows do not fit one block, is custom_fused's.
// Mapping:  block = 256 threads, thread = 8x16 accumulators; forward: 16 points x 32 windows x 64
//           filters; backward_data: 16 points x 32 windows (one image) x 32 channels;
//           backward_filter: 16 points x 32 filters x 64 channels, split along the windows. Where
//           blocks are few, a cluster of up to 8 shares the depth of each.
// Traffic:  transformed weights once a block (L2), x once a block of 64 filters, y and dy once (a
//           block of channels) with half a byte of argmax an element; partial dw once a split.
// Limits:   fp32, 3x3, stride 1, dilation 1, groups = 1, NCHW, pooling 2x2 with stride 2; needs
//           Hopper's bulk copies. A NaN or an infinity in x reaches all of its 4x4 patch.
// Measured: H200, alone in a CUDA graph, Nx64x13x13 -> 128: forward 9.0 us at N = 1 (19 without a
//           cluster), 20.2 at 64, 236 at 1024; backward_data 10.3 (22), 22.9 and 338;
//           backward_filter with db 12.2, 33.0 and 239. cuDNN's convolution alone, at 64 and 1024:
//           27.8, 288; 38.6, 344; 30.8, 380. Forward spends half of its time multiplying;
//           two warps a scheduler cannot hide transforms, barriers and the exchange.
#include "layers/conv2d/winograd_products.cuh"
#include "layers/conv2d_pool_relu/conv2d_pool_relu_general.h"

namespace duet {
namespace {

class Conv2dPoolReluCustomWinograd : public Conv2dPoolReluImpl {
 public:
  explicit Conv2dPoolReluCustomWinograd(const Conv2dPoolReluProblem& problem)
      : Conv2dPoolReluCustomWinograd(problem, multiprocessor_count()) {}

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
    if (!patch_sum_.fits()) return {};
    return patch_sum_.unsupported();
  }

 private:
  Conv2dPoolReluCustomWinograd(const Conv2dPoolReluProblem& problem, int multiprocessors)
      : Conv2dPoolReluImpl(problem),
        forward_(conv_, multiprocessors),
        patch_sum_(conv_, multiprocessors),
        backward_filter_(conv_, multiprocessors) {}

  const Conv2dProblem& conv_ = problem_.conv;
  const WinogradImageProduct<PooledOutput> forward_;
  const WinogradPatchSum<PooledGradient> patch_sum_;
  const WinogradFilterGradient<PooledGradient> backward_filter_;
  std::unique_ptr<Conv2dPoolReluImpl> fused_;  // where the image does not fit a block
};

std::optional<std::string> unsupported(const Conv2dPoolReluProblem& problem, Pass pass) {
  if (auto reason = custom_fused_unsupported(problem, pass)) return reason;
  if (auto reason = winograd_unsupported(problem.conv, pass)) return reason;
  if (!gpu_available()) return {};
  return Conv2dPoolReluCustomWinograd(problem).unsupported(pass);
}

}  // namespace

ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_custom_winograd() {
  return impl_entry<Conv2dPoolReluCustomWinograd>("custom_winograd", unsupported);
}

}  // namespace duet
