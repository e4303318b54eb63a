// conv2d_pool_relu custom_winograd: F(2x2, 3x3) whose output tile is the pooling window: 16
//           multiplications for 36, and pooled in place. backward_data of larger images, whose
//           windows do not fit one block, is custom_fused's.
// Mapping:  block = 256 threads, thread = 8x16 accumulators; forward: 16 points x 32 windows x 64
//           filters; backward_data: 16 points x 32 windows (one image) x 32 channels;
//           backward_filter: 16 points x 32 filters x 64 channels, split along the windows.
// Traffic:  transformed weights once a block (L2), x once a block of 64 filters, y and dy once (a
//           block of channels) with half a byte of argmax an element; partial dw once a split.
// Limits:   fp32, 3x3, stride 1, dilation 1, groups = 1, NCHW, pooling 2x2 with stride 2; needs
//           Hopper's bulk copies. A NaN or an infinity in x reaches all of its 4x4 patch.
// Measured: H200, alone in a CUDA graph, Nx64x13x13 -> 128: forward 21.6 us at N = 64, 238 at 1024;
//           backward_data 23.7 and 337; backward_filter with db 34.3 and 256. cuDNN's convolution
//           alone: 27.8, 288; 38.6, 344; 30.8, 380. Forward spends half of its time multiplying;
//           two warps a scheduler cannot hide transforms, barriers and the exchange.
#include "layers/conv2d/split_reduction.cuh"
#include "layers/conv2d/winograd_backward_data.cuh"
#include "layers/conv2d/winograd_backward_filter.cuh"
#include "layers/conv2d/winograd_forward.cuh"
#include "layers/conv2d_pool_relu/conv2d_pool_relu_custom_fused.h"

namespace duet {
namespace {

auto forward_kernel(const Conv2dProblem& d) {
  return winograd_forward_staged(d) ? winograd_pooled_forward_kernel<true>
                                    : winograd_pooled_forward_kernel<false>;
}
auto backward_filter_kernel(const Conv2dProblem& d) {
  return winograd_filter_staged(d) ? winograd_pooled_backward_filter_kernel<true>
                                   : winograd_pooled_backward_filter_kernel<false>;
}
/// Else backward_data is custom_fused's.
bool image_fits_block(const Conv2dProblem& d) {
  return (d.p / 2) * (d.q / 2) <= WinogradBlock<2>::kA;
}

class Conv2dPoolReluCustomWinograd : public Conv2dPoolReluImpl {
 public:
  explicit Conv2dPoolReluCustomWinograd(const Conv2dPoolReluProblem& problem)
      : Conv2dPoolReluImpl(problem), geometry_(problem.conv) {
    const int products =
        ceil_div(conv_.c, WinogradBlock<1>::kB) * ceil_div(conv_.k, WinogradBlock<1>::kA);
    split_ = plan_split(products, windows_, 1, multiprocessor_count());
    allow_smem(forward_kernel(conv_), winograd_forward_smem_bytes(conv_));
    allow_smem(backward_filter_kernel(conv_), winograd_filter_smem_bytes(conv_));
    if (image_fits_block(conv_)) {
      allow_smem(winograd_pooled_backward_data_kernel, winograd_data_smem_bytes());
    } else {
      fused_ = make_custom_fused(problem);
    }
  }

  size_t workspace_bytes(Pass pass) const override {
    if (pass == Pass::kBackwardFilter) {
      return sizeof(float) * split_.splits * partial_stride(conv_.k, conv_.c * 9);
    }
    if (pass == Pass::kBackwardData) {
      if (fused_) return fused_->workspace_bytes(pass);
      return sizeof(float) * 16 * round_up(conv_.k, WinogradBlock<2>::kDepth) *
             round_up(conv_.c, WinogradBlock<2>::kB);
    }
    return sizeof(float) * 16 * round_up(conv_.c, WinogradBlock<1>::kDepth) *
           round_up(conv_.k, WinogradBlock<1>::kB);
  }
  size_t state_bytes() const override { return packed_argmax_bytes(conv_); }
  std::string detail(Pass pass) const override {
    if (pass == Pass::kForward) return "F(2x2, 3x3), 32 windows x 64 filters";
    if (pass == Pass::kBackwardFilter) {
      return "F(2x2, 3x3), 32 filters x 64 channels, " + std::to_string(split_.splits) + " splits";
    }
    return fused_ ? "custom_fused: " + fused_->detail(pass)
                  : "F(2x2, 3x3), 32 windows x 32 channels";
  }

  void forward(Context& context, const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y,
               const Tensor& state) override {
    using Block = WinogradBlock<1>;
    float* u = static_cast<float*>(context.workspace());
    launch_winograd_filter<Block::kB>(w.data<float>(), conv_.k, conv_.c,
                                      round_up(conv_.c, Block::kDepth), conv_.c * 9, 9, u,
                                      context.stream());
    const dim3 grid(ceil_div(windows_, Block::kA), ceil_div(conv_.k, Block::kB));
    forward_kernel(
        conv_)<<<grid, Block::kThreads, winograd_forward_smem_bytes(conv_), context.stream()>>>(
        geometry_, x.data<float>(), u, b.data<float>(), y.data<float>(), state.data<uint32_t>());
    DUET_LAUNCHED();
  }

  void backward_data(Context& context, const Tensor& y, const Tensor& dy, const Tensor& state,
                     const Tensor& w, const Tensor& dx) override {
    if (fused_) return fused_->backward_data(context, y, dy, state, w, dx);
    using Block = WinogradBlock<2>;
    float* u = static_cast<float*>(context.workspace());
    launch_winograd_filter<Block::kB>(w.data<float>(), conv_.c, conv_.k,
                                      round_up(conv_.k, Block::kDepth), 9, conv_.c * 9, u,
                                      context.stream());
    const dim3 grid(conv_.n, ceil_div(conv_.c, Block::kB));
    winograd_pooled_backward_data_kernel<<<grid, Block::kThreads, winograd_data_smem_bytes(),
                                           context.stream()>>>(
        geometry_, dy.data<float>(), state.data<uint32_t>(), u, dx.data<float>());
    DUET_LAUNCHED();
  }

  void backward_filter(Context& context, const Tensor& x, const Tensor&, const Tensor& dy,
                       const Tensor& state, const Tensor& dw, const Tensor& db) override {
    using Block = WinogradBlock<1>;
    float* partial = static_cast<float*>(context.workspace());
    const int filters = conv_.k, weights = conv_.k * conv_.c * 9;
    const size_t stride = partial_stride(filters, conv_.c * 9);
    const dim3 grid(ceil_div(conv_.c, Block::kB), ceil_div(filters, Block::kA), split_.splits);
    backward_filter_kernel(
        conv_)<<<grid, Block::kThreads, winograd_filter_smem_bytes(conv_), context.stream()>>>(
        geometry_, x.data<float>(), dy.data<float>(), state.data<uint32_t>(),
        split_.depth_per_split, stride, partial);
    DUET_LAUNCHED();
    launch_reduce_splits(partial, split_.splits, stride, weights + filters, weights,
                         dw.data<float>(), db.data<float>(), context.stream());
  }

 private:
  const Conv2dProblem& conv_ = problem_.conv;
  const ConvGeometry geometry_;
  const int windows_ = conv_.n * geometry_.windows;
  SplitPlan split_;
  std::unique_ptr<Conv2dPoolReluImpl> fused_;  // where the image does not fit a block
};

std::optional<std::string> unsupported(const Conv2dPoolReluProblem& problem, Pass pass) {
  if (auto reason = custom_fused_unsupported(problem, pass)) return reason;
  const Conv2dProblem& d = problem.conv;
  if (d.layout != Layout::kNCHW) return "takes nchw only";
  if (d.r != 3 || d.s != 3) return "takes 3x3 filters only";
  if (d.stride_h != 1 || d.stride_w != 1) return "takes stride 1 only";
  if (d.dilation_h != 1 || d.dilation_w != 1) return "takes dilation 1 only";
  if (pass == Pass::kForward) {
    return bulk_copies_unsupported(forward_kernel(d), winograd_forward_smem_bytes(d));
  }
  if (pass == Pass::kBackwardFilter) {
    return bulk_copies_unsupported(backward_filter_kernel(d), winograd_filter_smem_bytes(d));
  }
  if (!image_fits_block(d)) return {};
  return bulk_copies_unsupported(winograd_pooled_backward_data_kernel, winograd_data_smem_bytes());
}

}  // namespace

ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_custom_winograd() {
  return {"custom_winograd", unsupported, make_implementation<Conv2dPoolReluCustomWinograd>};
}

}  // namespace duet
