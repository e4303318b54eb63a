// conv2d_pool_relu custom_mma: conv2d custom_mma whose forward pools in registers; tf32 or bf16.
// Mapping:  as conv2d custom_mma. Forward's rows run through eight windows at a time, so that the four
//           elements of a window are rows eight apart: a lane's own.
// Traffic:  as conv2d custom_mma, but y is the pooled one plus half a byte of argmax an element.
//           Backward unpools dy while it stages it.
// Limits:   those of conv2d custom_mma; pooling 2x2 with stride 2, no pool padding.
#include "layers/conv2d/mma/mma_convolution.cuh"
#include "layers/conv2d_pool_relu/conv2d_pool_relu_general.h"
#include "layers/conv2d_pool_relu/window_product.cuh"

namespace duet {
namespace {

template <class T>
class Conv2dPoolReluCustomMma : public Conv2dPoolReluImpl {
 public:
  Conv2dPoolReluCustomMma(const Conv2dPoolReluProblem& problem, const Context& context)
      : Conv2dPoolReluImpl(problem), convolution_(problem.conv, context.workspace_limit()) {}

  size_t workspace_bytes(Pass pass) const override { return convolution_.workspace_bytes(pass); }
  size_t state_bytes() const override { return packed_argmax_bytes(problem_.conv); }
  std::string detail(Pass pass) const override {
    if (pass != Pass::kForward) return convolution_.text(pass);
    return tile_text<typename MmaConvolution<T>::Tiles>(convolution_.window_tile());
  }

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y,
               const Tensor& state) override {
    problem_.conv.layout == Layout::kNCHW ? forward_to<Layout::kNCHW>(run, x, w, b, y, state)
                                          : forward_to<Layout::kNHWC>(run, x, w, b, y, state);
  }
  void backward_data(const Run& run, const Tensor&, const Tensor& dy, const Tensor& state,
                     const Tensor& w, const Tensor& dx) override {
    convolution_.backward_data(run, dy, state.data<uint32_t>(), w, dx);
  }
  void backward_filter(const Run& run, const Tensor& x, const Tensor&, const Tensor& dy,
                       const Tensor& state, const Tensor& dw, const Tensor& db) override {
    convolution_.backward_filter(run, x, dy, state.data<uint32_t>(), dw.data<float>(),
                                 db.data<float>());
  }

 private:
  template <Layout kLayout>
  void forward_to(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
                  const Tensor& y, const Tensor& state) {
    convolution_.forward_windows(
        run, x, w,
        [&]<class Tile>(Tile, const auto& patches, const auto& filters, int rows, int depth) {
          launch_window_product<kLayout, Tile>(patches, filters, rows, problem_.conv.k, depth,
                                               b.data<float>(), y.data<T>(), state.memory,
                                               run.stream());
        });
  }

  const MmaConvolution<T> convolution_;
};

std::optional<std::string> unsupported(const Conv2dPoolReluProblem& problem, Pass pass) {
  if (auto reason = window_unsupported(problem)) return reason;
  return mma_unsupported(problem.conv, pass);
}

}  // namespace

std::unique_ptr<Conv2dPoolReluImpl> make_custom_mma(const Conv2dPoolReluProblem& problem,
                                                    const Context& context) {
  return std::make_unique<Conv2dPoolReluCustomMma<bfloat16>>(problem, context);
}

ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_custom_mma() {
  return gpu_entry<Conv2dPoolReluCustomMma>("custom_mma", unsupported);
}

}  // namespace duet
