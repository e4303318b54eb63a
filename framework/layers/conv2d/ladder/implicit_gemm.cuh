// custom_implicit_gemm's class; its two layouts are compiled side by side.
#pragma once

#include "kernels/fma_tile.cuh"
#include "layers/conv2d/conv2d.h"
#include "layers/conv2d/ladder/conv2d_gathers.cuh"
#include "layers/conv2d/small_channels/strided_product.cuh"

namespace duet {

template <Layout kLayout, class T>
class Conv2dCustomImplicitGemm : public Conv2dImpl {
 public:
  Conv2dCustomImplicitGemm(const Conv2dProblem& problem, const Context& context)
      : Conv2dImpl(problem), geometry_(problem), phases_(problem) {
    const int multiprocessors = multiprocessor_count();
    const size_t limit = context.workspace_limit();
    forward_ = {outputs_, problem.k, taps_, multiprocessors, limit};
    backward_data_ = input_product<FmaTiles>(problem, phases_, multiprocessors, limit);
    backward_filter_ = {problem.k, taps_, outputs_, multiprocessors};
  }

  size_t workspace_bytes(Pass pass) const override {
    return pass == Pass::kBackwardFilter ? backward_filter_.workspace_bytes()
                                         : image_product(pass).workspace_bytes();
  }
  std::string detail(Pass pass) const override {
    return pass == Pass::kBackwardFilter ? backward_filter_.text() : image_product(pass).text();
  }

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) override;

  void backward_data(const Run& run, const Tensor& dy, const Tensor& w, const Tensor& dx) override;

  void backward_filter(const Run& run, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) override;

 private:
  // Elements along a channel axis that are fetched at once where their number is a multiple of it.
  static constexpr int kWide = kLayout == Layout::kNHWC ? 4 : 1;

  const ImageProduct<FmaTiles>& image_product(Pass pass) const {
    return pass == Pass::kForward ? forward_ : backward_data_;
  }

  template <int vec_x, int vec_w>
  void forward_by(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
                  const Tensor& y) {
    launch_image_product<kLayout>(
        forward_,
        PatchByPosition<kLayout, PixelOrder, vec_x, T>{{x.data<T>(), geometry_, outputs_, taps_}},
        MatrixByDepth<vec_w>{w.data<float>(), problem_.k, taps_}, geometry_.pixels_out,
        b.data<float>(), y.data<T>(), run.workspace, run.stream());
  }
  template <int vec>
  void backward_data_by(const Run& run, const Tensor& dy, const Tensor& w, const Tensor& dx) {
    const int depth = problem_.k * geometry_.taps;
    launch_input_product<kLayout>(
        backward_data_,
        GradByInput<kLayout, false, vec, T>{dy.data<T>(), nullptr, geometry_, inputs_, depth},
        WeightByChannel<kLayout, vec>{w.data<float>(), geometry_, depth}, phases_, dx.data<T>(),
        run.workspace, run.stream());
  }
  template <int vec>
  void backward_filter_by(const Run& run, const Tensor& x, const Tensor& dy, const Tensor& dw,
                          const Tensor& db) {
    launch_weight_product(
        backward_filter_, GradByFilter<kLayout, vec, T>{dy.data<T>(), geometry_},
        PatchByTap<kLayout, PixelOrder, vec, T>{{x.data<T>(), geometry_, outputs_, taps_}},
        dw.data<float>(), db.data<float>(), run.workspace, run.stream());
  }

  const ConvGeometry geometry_;
  const StridePhases phases_;
  const int outputs_ = problem_.n * problem_.p * problem_.q;
  const int inputs_ = problem_.n * problem_.h * problem_.w;
  const int taps_ = problem_.c * problem_.r * problem_.s;
  ImageProduct<FmaTiles> forward_, backward_data_;
  WeightProduct<FmaTiles> backward_filter_;
};

// Behind the class, as `extern template` does not keep the compiler from making what is inline again, kernels and all.

template <Layout kLayout, class T>
void Conv2dCustomImplicitGemm<kLayout, T>::forward(const Run& run, const Tensor& x, const Tensor& w,
                                                   const Tensor& b, const Tensor& y) {
  if (problem_.c % 4 == 0) {
    forward_by<kWide, 4>(run, x, w, b, y);
  } else if (taps_ % 4 == 0) {
    forward_by<1, 4>(run, x, w, b, y);
  } else {
    forward_by<1, 1>(run, x, w, b, y);
  }
}

template <Layout kLayout, class T>
void Conv2dCustomImplicitGemm<kLayout, T>::backward_data(const Run& run, const Tensor& dy,
                                                         const Tensor& w, const Tensor& dx) {
  if (problem_.c % 4 == 0 && problem_.k % 4 == 0) {
    backward_data_by<kWide>(run, dy, w, dx);
  } else {
    backward_data_by<1>(run, dy, w, dx);
  }
}

template <Layout kLayout, class T>
void Conv2dCustomImplicitGemm<kLayout, T>::backward_filter(const Run& run, const Tensor& x,
                                                           const Tensor& dy, const Tensor& dw,
                                                           const Tensor& db) {
  if (problem_.c % 4 == 0 && problem_.k % 4 == 0) {
    backward_filter_by<kWide>(run, x, dy, dw, db);
  } else {
    backward_filter_by<1>(run, x, dy, dw, db);
  }
}

}  // namespace duet
