// conv2d custom_mma: implicit GEMM on tensor cores, by the warp-wide mma.sync; tf32 or bf16.
// Mapping:  block = 128 (or 64) rows x 128 (or 64, or 32) columns of the product, warp = 64x32 (or
//           32x32, or 32x16) sums in pieces of 16x8 that lanes hold together (kernels/mma_tile.cuh);
//           rows and columns as custom_implicit_gemm's, sums split likewise.
// Traffic:  as custom_implicit_gemm, in 16-byte fetches: what does not lie with its channels last and
//           in whole 16 bytes, and the weights, is rewritten first (mma_staging.cuh). Filters of 1x1 with
//           stride 1 in nchw, on Hopper, are multiplied where they lie (pointwise_product.cuh, pointwise_kept.cuh),
//           and up to 64 images of one pixel without tiles (kernels/few_rows.cuh), as detail() says.
// Limits:   math tf32 or bf16, groups = 1, 32-bit element numbers, padded height and width below
//           16384; compute capability 8.0.
#include "layers/conv2d/conv2d.h"
#include "layers/conv2d/mma/mma_convolution.cuh"
#include "layers/conv2d/mma/pointwise_product.cuh"
#include "layers/conv2d/wgmma/halo_convolution.h"

namespace duet {

template class MmaConvolution<bfloat16>;

namespace {

template <class T>
class Conv2dCustomMma : public Conv2dImpl {
 public:
  Conv2dCustomMma(const Conv2dProblem& problem, const Context& context)
      : Conv2dImpl(problem), convolution_(problem, context.workspace_limit()) {}

  size_t workspace_bytes(Pass pass) const override { return convolution_.workspace_bytes(pass); }
  std::string detail(Pass pass) const override { return convolution_.text(pass); }

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) override {
    convolution_.forward(run, x, w, b.data<float>(), y);
  }
  void backward_data(const Run& run, const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    convolution_.backward_data(run, dy, nullptr, w, dx);
  }
  void backward_filter(const Run& run, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) override {
    convolution_.backward_filter(run, x, dy, nullptr, dw.data<float>(), db.data<float>());
  }

 private:
  const MmaConvolution<T> convolution_;
};

template <class T>
using Conv2dPointwise = PointwiseConvolution<T, false>;

}  // namespace

ImplEntry<Conv2dProblem> conv2d_custom_mma() {
  auto entry = gpu_entry<Conv2dCustomMma>("custom_mma", mma_unsupported);
  entry.make = [](const Conv2dProblem& problem, Context& context) {
    const auto entry = is_pointwise(problem) ? gpu_entry<Conv2dPointwise, Conv2dProblem>("")
                                             : gpu_entry<Conv2dCustomMma>("");
    return entry.make(problem, context);
  };
  entry.preferred = [](const Conv2dProblem& problem, Pass pass, size_t) {
    return pointwise_preferred(problem) || mma_preferred_to_halo(problem, pass);
  };
  return entry;
}

}  // namespace duet
