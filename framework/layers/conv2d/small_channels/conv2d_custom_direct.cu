// conv2d custom_direct: few input channels; the input patch of a 2x2 block of outputs stays in
//           registers while filters go by.
// Mapping:  forward: thread = one or two 2x2 blocks x a run of filters. backward_filter: thread = blocks of
//           many images x 8 filters (fewer with more taps), summed over the thread block by a halving
//           exchange between lanes. backward_data in nchw: direct_input.cuh. In tf32 and bf16, in nchw, where
//           rows of y are whole 16 bytes, on tensor cores: forward (direct_forward_product.cuh), backward_data
//           with a stride (direct_input_product.cuh), and backward_filter, whose sums a block keeps
//           (direct_filter_product.cuh); in nhwc and bf16 a warp keeps them (direct_filter_rows.cuh).
// Traffic:  x once a run of filters (from L2), w from shared memory, y once; dy once.
// Limits:   1-4 channels, groups = 1; on float32 units 3x3 or, with 1 channel, 5x5, stride 1, dilation 1,
//           backward_data in nchw where float32 is stored; on tensor cores up to 200 weights a filter, forward with strides
//           along a row up to 2; backward_data with dilation 1, strides whose product with the channels is
//           16 at most, up to 4 strides of taps.
// Measured: H200, fp32, alone in a CUDA graph, Nx1x28x28 -> 64, 3x3, NCHW: forward 5.9 us at N = 64, 74.5
//           at 1024 (cuDNN 13.3 and 120.5); backward_filter with db 11.4 and 79.6 (29.0 and 204).
#include "layers/conv2d/conv2d_moments.h"
#include "layers/conv2d/small_channels/direct_filter_rows.cuh"
#include "layers/conv2d/small_channels/direct_input.cuh"
#include "layers/conv2d/small_channels/direct_products.cuh"

namespace duet {
namespace {

template <class T>
class Conv2dCustomDirect : public Conv2dImpl {
 public:
  explicit Conv2dCustomDirect(const Conv2dProblem& problem)
      : Conv2dImpl(problem), convolution_(problem) {
    if (problem.math != Math::kFP32) products_.emplace(problem);
    if (products_ && !filter_product_pays(problem)) products_->backward_filter.reset();
    if (!direct_unsupported(problem, Pass::kBackwardFilter) && filter_rows_possible(problem))
      filter_rows_.emplace(problem);
    if (!direct_input_unsupported(problem)) input_.emplace(problem);
  }

  size_t workspace_bytes(Pass pass) const override {
    if (pass != Pass::kBackwardFilter) return 0;
    if (filter_rows_) return filter_rows_->workspace_bytes();
    if (const auto* product = filter_product()) return product->workspace_bytes();
    return convolution_.backward_filter_workspace_bytes();
  }
  std::string detail(Pass pass) const override {
    const std::string product = products_ ? products_->text(pass) : "";
    if (!product.empty()) return product;
    if (pass == Pass::kBackwardData && input_) return input_->text();
    if (pass == Pass::kBackwardFilter && filter_rows_) return filter_rows_->text();
    return convolution_.text(pass);
  }

  std::vector<PortUse> ports(Pass pass, bool inference) const override {
    if (pass != Pass::kForward || inference || !forward_product()) return {};
    return y_moments_of(forward_product()->moment_parts(), problem_.k);
  }
  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) override {
    if (const auto* product = forward_product()) {
      product->run(x.data<T>(), w.data<float>(), b.data<float>(), y.data<T>(), run.stream(),
                   ChannelMoments::at(run.ports.y_moments));
    } else {
      convolution_.forward(run.inference, x.data<T>(), w.data<float>(), b.data<float>(),
                           y.data<T>(), nullptr, run.stream());
    }
  }

  void backward_data(const Run& run, const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    if (input_) {
      return input_->run(dy.data<float>(), w.data<float>(), dx.data<float>(), run.stream());
    }
    products_->backward_data->run(dy.data<T>(), w.data<float>(), dx.data<T>(), run.stream());
  }

  void backward_filter(const Run& run, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) override {
    if (const auto* product = filter_product()) {
      product->run(x.data<T>(), dy.data<T>(), dw.data<float>(), db.data<float>(), run.workspace,
                   run.stream());
      return;
    }
    if constexpr (std::is_same_v<T, bfloat16>) {
      if (filter_rows_) {
        filter_rows_->run(x.data<T>(), dy.data<T>(), dw.data<float>(), db.data<float>(),
                          run.workspace, run.stream());
        return;
      }
    }
    convolution_.backward_filter(x.data<T>(), dy.data<T>(), nullptr, dw.data<float>(),
                                 db.data<float>(), run.workspace, run.stream());
  }

 private:
  using Mma = std::conditional_t<std::is_same_v<T, bfloat16>, MmaBf16, MmaTf32>;
  /// nullptr where it has none.
  const DirectForwardProduct<Mma, T>* forward_product() const {
    return products_ && products_->forward ? &*products_->forward : nullptr;
  }
  /// nullptr where it has none, or does not pay.
  const DirectFilterProduct<Mma, T>* filter_product() const {
    return products_ && products_->backward_filter ? &*products_->backward_filter : nullptr;
  }

  const DirectConvolution<T, false> convolution_;
  std::optional<DirectProducts<Mma, T>> products_;  // of tf32 and bf16
  std::optional<DirectFilterRows> filter_rows_;     // of bfloat16
  std::optional<DirectInput> input_;                // of float32, with stride 1
};

std::optional<std::string> unsupported(const Conv2dProblem& problem, Pass pass) {
  const bool possible = direct_product_possible(problem, pass), fp32 = problem.math == Math::kFP32;
  if (possible && !fp32) return {};
  std::optional<std::string> reason = direct_unsupported(problem, pass);
  if (pass == Pass::kBackwardData) {
    reason = direct_input_unsupported(problem);
    if (reason && !fp32 && problem.stride_h * problem.stride_w > 1)
      reason = no_direct_product(pass);
  }
  if (reason && possible) *reason += "; custom_direct_3xtf32 takes it";
  return reason;
}

}  // namespace

ImplEntry<Conv2dProblem> conv2d_custom_direct() {
  return gpu_entry<Conv2dCustomDirect>("custom_direct", unsupported);
}

}  // namespace duet
