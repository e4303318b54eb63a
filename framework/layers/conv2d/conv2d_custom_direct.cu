// conv2d custom_direct: few input channels; the input patch of a 2x2 block of outputs stays in
//           registers while filters go by.
// Mapping:  forward: thread = one or two 2x2 blocks x a run of filters; in nchw, where rows of y are
//           whole 16 bytes, in tf32, bf16 and with large filters or a stride on tensor cores
//           (direct_forward_product.cuh). backward_filter: thread = blocks of many images x 8 filters
//           (fewer with more taps), summed over the thread block by a halving exchange between lanes;
//           in nchw, where rows of dy are whole 16 bytes, a product on tensor cores whose sums a block
//           keeps (direct_filter_product.cuh); in nhwc and bf16 another whose sums a warp keeps
//           (direct_filter_rows.cuh). backward_data with a stride: on tensor cores likewise
//           (direct_input_product.cuh).
// Traffic:  x once a run of filters (from L2), w from shared memory, y once; dy once.
// Limits:   fp32 or bf16, 1-4 channels, groups = 1; forward and backward_filter: fp32 FMA, 3x3 or, with
//           1 channel, 5x5, stride 1, dilation 1, or on tensor cores up to 200 weights a filter, which
//           in forward takes strides along a row up to 2; backward_data: nchw, dilation 1, strides whose
//           product with the channels is 16 at most, up to 4 strides of taps, rows of dy of whole 16
//           bytes.
// Measured: H200, fp32, alone in a CUDA graph, Nx1x28x28 -> 64, 3x3, NCHW: forward 5.9 us at N = 64, 74.5
//           at 1024 (cuDNN 13.3 and 120.5); backward_filter with db 11.4 and 79.6 (29.0 and 204).
#include "layers/conv2d/conv2d.h"
#include "layers/conv2d/direct_convolution.cuh"
#include "layers/conv2d/direct_filter_product.cuh"
#include "layers/conv2d/direct_filter_rows.cuh"
#include "layers/conv2d/direct_forward_product.cuh"
#include "layers/conv2d/direct_input_product.cuh"
#include "layers/inference_forward.h"

namespace duet {
namespace {

/// By what both take on an H100: products on float32 units, and bytes of x and dy.
bool filter_product_pays(const Conv2dProblem& d) {
  if (direct_unsupported(d, Pass::kBackwardFilter)) return true;
  const double bytes = double(d.x_desc().bytes()) + double(d.y_desc().bytes());
  return 10 + bytes / 1.8e6 < 6 + double(d.products()) / 5e6;
}

/// In float32 the units have three times as much to do.
bool forward_product_pays(const Conv2dProblem& d) {
  return d.math != Math::kFP32 || direct_unsupported(d, Pass::kForward);
}

template <class T>
class Conv2dCustomDirect : public Conv2dImpl, public InferenceForward {
 public:
  explicit Conv2dCustomDirect(const Conv2dProblem& problem)
      : Conv2dImpl(problem), convolution_(problem) {
    if (filter_product_possible(problem) && filter_product_pays(problem))
      filter_product_.emplace(problem);
    if (!direct_unsupported(problem, Pass::kBackwardFilter) && filter_rows_possible(problem))
      filter_rows_.emplace(problem);
    if (input_product_possible(problem)) input_product_.emplace(problem);
    if (forward_product_possible(problem) && forward_product_pays(problem))
      forward_product_.emplace(problem);
  }

  size_t workspace_bytes(Pass pass) const override {
    if (pass != Pass::kBackwardFilter) return 0;
    if (filter_rows_) return filter_rows_->workspace_bytes();
    return filter_product_ ? filter_product_->workspace_bytes()
                           : convolution_.backward_filter_workspace_bytes();
  }
  std::string detail(Pass pass) const override {
    if (pass == Pass::kBackwardFilter && filter_product_) return filter_product_->text();
    if (pass == Pass::kBackwardFilter && filter_rows_) return filter_rows_->text();
    if (pass == Pass::kBackwardData && input_product_) return input_product_->text();
    if (pass == Pass::kForward && forward_product_) return forward_product_->text();
    return convolution_.text(pass);
  }

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) override {
    forward(run, false, x, w, b, y);
  }
  void infer(const Run& run, const LayerTensors& t, const void*) override {
    forward(run, true, t.x[0], t.w[0], problem_.bias ? t.w[1] : Tensor{}, t.y[0]);
  }

  void backward_data(const Run& run, const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    input_product_->run(dy.data<T>(), w.data<float>(), dx.data<T>(), run.stream());
  }

  void backward_filter(const Run& run, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) override {
    if (filter_product_) {
      filter_product_->run(x.data<T>(), dy.data<T>(), dw.data<float>(), db.data<float>(),
                           run.workspace, run.stream());
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
  void forward(const Run& run, bool weights_rest, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) const {
    if (forward_product_) {
      forward_product_->run(x.data<T>(), w.data<float>(), b.data<float>(), y.data<T>(),
                            run.stream());
    } else {
      convolution_.forward(weights_rest, x.data<T>(), w.data<float>(), b.data<float>(), y.data<T>(),
                           nullptr, run.stream());
    }
  }

  const DirectConvolution<T, false> convolution_;
  std::optional<DirectFilterProduct<T>> filter_product_;
  std::optional<DirectFilterRows> filter_rows_;  // of bfloat16
  std::optional<DirectInputProduct<T>> input_product_;
  std::optional<DirectForwardProduct<T>> forward_product_;
};

std::optional<std::string> unsupported(const Conv2dProblem& problem, Pass pass) {
  if (pass == Pass::kBackwardData) {
    if (input_product_possible(problem)) return {};
    return "has backward_data on tensor cores only, in nchw, with a stride";
  }
  if (pass == Pass::kBackwardFilter && filter_product_possible(problem)) return {};
  if (pass == Pass::kForward && forward_product_possible(problem)) return {};
  return direct_unsupported(problem, pass);
}

}  // namespace

ImplEntry<Conv2dProblem> conv2d_custom_direct() {
  return gpu_entry<Conv2dCustomDirect>("custom_direct", unsupported);
}

}  // namespace duet
