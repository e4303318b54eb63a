// conv2d_pool_relu custom_direct: conv2d custom_direct whose 2x2 blocks of outputs are the pooling
//           windows: forward stores their largest, backward_filter unpools dy in registers.
//           backward_data, which a first layer never runs, is custom_fused's, in bf16 custom_mma's.
// Mapping:  as conv2d custom_direct; in tf32 and bf16 with one channel and 3x3 filters, where windows
//           are many, by mma.sync: in forward (direct_mma.cuh) a warp has 8 windows x 64 filters, in
//           backward_filter (direct_mma_filter.cuh) a part of an image's windows.
// Traffic:  as conv2d custom_direct, but y and dy are the pooled ones plus half a byte of argmax an
//           element.
// Limits:   those of conv2d custom_direct; pooling 2x2 with stride 2, no pool padding.
// Measured: H200, fp32, alone in a CUDA graph, Nx1x28x28 -> 64, 3x3: forward 4.7 us at N = 64, 34.3 at
//           1024; backward_filter 8.6 and 49.2. cuDNN's convolution alone: 13.3 and 120.5; 29.0 and
//           203.6.
#include <optional>

#include "layers/conv2d/small_channels/direct_convolution.cuh"
#include "layers/conv2d/small_channels/direct_mma_filter.cuh"
#include "layers/conv2d_pool_relu/conv2d_pool_relu_general.h"

namespace duet {
namespace {

template <class T>
class Conv2dPoolReluCustomDirect : public Conv2dPoolReluImpl {
 public:
  Conv2dPoolReluCustomDirect(const Conv2dPoolReluProblem& problem, const Context& context)
      : Conv2dPoolReluImpl(problem),
        convolution_(problem.conv),
        general_(kFloat ? make_custom_fused(problem) : make_custom_mma(problem, context)) {
    const Conv2dProblem& conv = problem.conv;
    if (conv.math == Math::kFP32 || !has_many_windows(conv)) return;
    if (!DirectMmaForward<T, 1>::unsupported(conv)) forward_by_mma_.emplace(conv);
    if (!DirectMmaFilter<T, 1>::unsupported(conv)) filter_by_mma_.emplace(conv);
  }

  size_t workspace_bytes(Pass pass) const override {
    if (pass == Pass::kBackwardData) return general_->workspace_bytes(pass);
    if (pass == Pass::kForward) return 0;
    return filter_by_mma_ ? filter_by_mma_->workspace_bytes()
                          : convolution_.backward_filter_workspace_bytes();
  }
  size_t state_bytes() const override { return packed_argmax_bytes(problem_.conv); }
  std::string detail(Pass pass) const override {
    if (pass == Pass::kForward && forward_by_mma_) return forward_by_mma_->text();
    if (pass == Pass::kBackwardFilter && filter_by_mma_) return filter_by_mma_->text();
    if (pass != Pass::kBackwardData) return convolution_.text(pass);
    return (kFloat ? "custom_fused: " : "custom_mma: ") + general_->detail(pass);
  }

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y,
               const Tensor& state) override {
    if (forward_by_mma_) {
      forward_by_mma_->run(x.data<T>(), w.data<float>(), b.data<float>(), y.data<T>(),
                           run.inference ? nullptr : state.data<uint32_t>(), run.stream());
    } else {
      convolution_.forward(run.inference, x.data<T>(), w.data<float>(), b.data<float>(),
                           y.data<T>(), state.data<uint32_t>(), run.stream());
    }
  }

  void backward_data(const Run& run, const Tensor& y, const Tensor& dy, const Tensor& state,
                     const Tensor& w, const Tensor& dx) override {
    general_->backward_data(run, y, dy, state, w, dx);
  }

  void backward_filter(const Run& run, const Tensor& x, const Tensor&, const Tensor& dy,
                       const Tensor& state, const Tensor& dw, const Tensor& db) override {
    if (filter_by_mma_) {
      filter_by_mma_->run(x.data<T>(), dy.data<T>(), state.data<uint32_t>(), dw.data<float>(),
                          db.data<float>(), run.workspace, run.stream());
    } else {
      convolution_.backward_filter(x.data<T>(), dy.data<T>(), state.data<uint32_t>(),
                                   dw.data<float>(), db.data<float>(), run.workspace, run.stream());
    }
  }

 private:
  static constexpr bool kFloat = std::is_same_v<T, float>;

  const DirectConvolution<T, true> convolution_;
  std::optional<DirectMmaForward<T, 1>> forward_by_mma_;
  std::optional<DirectMmaFilter<T, 1>> filter_by_mma_;
  const std::unique_ptr<Conv2dPoolReluImpl> general_;  // runs backward_data
};

std::optional<std::string> unsupported(const Conv2dPoolReluProblem& problem, Pass pass) {
  if (auto reason = custom_fused_unsupported(problem, pass)) return reason;
  return direct_unsupported(problem.conv, pass);
}

}  // namespace

ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_custom_direct() {
  return gpu_entry<Conv2dPoolReluCustomDirect>("custom_direct", unsupported);
}

}  // namespace duet
