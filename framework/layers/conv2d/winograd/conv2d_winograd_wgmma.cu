// The passes of winograd_matrices.cuh, for custom_winograd_3xtf32.
#include "layers/conv2d/winograd/winograd_matrices.h"

#include <limits>

#include "device/likely_multiprocessors.h"
#include "layers/conv2d/wgmma/wgmma_convolution.cuh"
#include "layers/conv2d/winograd/winograd_matrices_filter.cuh"
#include "layers/conv2d/winograd/winograd_matrices_images.cuh"
#include "layers/conv2d/winograd/winograd_transposed.h"

namespace duet {
namespace {

class Conv2dWinogradMatrices : public Conv2dImpl {
  // Before its uses, whose types are deduced from it.
  template <class Visit>
  auto visit(Pass pass, Visit visit) const {
    if (pass == Pass::kBackwardFilter) return visit(backward_filter_);
    return visit(pass == Pass::kForward ? forward_ : backward_data_);
  }

 public:
  Conv2dWinogradMatrices(const Conv2dProblem& d, size_t limit)
      : Conv2dImpl(d),
        forward_(d, limit, likely_multiprocessor_count()),
        backward_data_(winograd_transposed(d), limit, likely_multiprocessor_count()),
        backward_filter_(d, limit, likely_multiprocessor_count()) {}

  size_t workspace_bytes(Pass pass) const override {
    return visit(pass, [](const auto& matrices) { return matrices.workspace_bytes(); });
  }
  std::string detail(Pass pass) const override {
    return visit(pass, [](const auto& matrices) { return matrices.text(); });
  }
  double microseconds(Pass pass) const {
    return visit(pass, [](const auto& matrices) {
      return matrices.fits() ? matrices.microseconds() : std::numeric_limits<double>::infinity();
    });
  }

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) override {
    forward_.run(x.data<float>(), WinogradFilters::of_forward(w.data<float>(), problem_),
                 b.data<float>(), y.data<float>(), run.workspace, run.stream());
  }
  void backward_data(const Run& run, const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    backward_data_.run(dy.data<float>(), WinogradFilters::of_transposed(w.data<float>(), problem_),
                       nullptr, dx.data<float>(), run.workspace, run.stream());
  }
  void backward_filter(const Run& run, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) override {
    backward_filter_.run(x.data<float>(), dy.data<float>(), dw.data<float>(), db.data<float>(),
                         run.workspace, run.stream());
  }

 private:
  const WinogradMatrixImages forward_, backward_data_;
  const WinogradMatrixFilter backward_filter_;
};

}  // namespace

std::unique_ptr<Conv2dImpl> winograd_matrices(const Conv2dProblem& d, size_t workspace_limit) {
  return std::make_unique<Conv2dWinogradMatrices>(d, workspace_limit);
}

double winograd_matrices_microseconds(const Conv2dProblem& d, Pass pass, size_t workspace_limit) {
  if (wgmma_unsupported()) return std::numeric_limits<double>::infinity();
  return Conv2dWinogradMatrices(d, workspace_limit).microseconds(pass);
}

bool winograd_matrices_preferred_to_wgmma(const Conv2dProblem& d, Pass pass,
                                          size_t workspace_limit) {
  const WgmmaConvolution<float, true> convolution(d, workspace_limit);
  return winograd_matrices_microseconds(d, pass, workspace_limit) < convolution.microseconds(pass);
}

}  // namespace duet
