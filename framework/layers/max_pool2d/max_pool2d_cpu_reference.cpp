// max_pool2d cpu_reference: the definition as loops, float or double. Backward looks for the
// largest value again, so nothing is kept between the passes.
#include <algorithm>
#include <limits>

#include "layers/max_pool2d/max_pool2d_impls.h"
#include "layers/pool2d/pool2d_cpu.h"

namespace duet {
namespace {

class MaxPool2dCpuReference : public Pool2dImpl {
 public:
  using Pool2dImpl::Pool2dImpl;

  void forward(Context&, const Tensor& x, const Tensor& y, const Tensor&) override {
    problem_.dtype == DType::kFloat64 ? forward(x.data<double>(), y.data<double>())
                                      : forward(x.data<float>(), y.data<float>());
  }

  void backward(Context&, const Tensor& x, const Tensor&, const Tensor& dy, const Tensor&,
                const Tensor& dx) override {
    problem_.dtype == DType::kFloat64
        ? backward(x.data<double>(), dy.data<double>(), dx.data<double>())
        : backward(x.data<float>(), dy.data<float>(), dx.data<float>());
  }

 private:
  template <class T>
  void forward(const T* x, T* y) {
    for_each_plane(problem_, [&](auto x_offset, auto y_offset) {
      for_each_output(problem_, [&](int p, int q) {
        y[y_offset(p, q)] = x[offset_of_largest(x, x_offset, p, q)];
      });
    });
  }

  template <class T>
  void backward(const T* x, const T* dy, T* dx) {
    std::fill_n(dx, problem_.x_desc().elements(), T(0));
    for_each_plane(problem_, [&](auto x_offset, auto y_offset) {
      for_each_output(problem_, [&](int p, int q) {
        dx[offset_of_largest(x, x_offset, p, q)] += dy[y_offset(p, q)];
      });
    });
  }

  template <class T, class Offset>
  int64_t offset_of_largest(const T* x, const Offset& x_offset, int p, int q) {
    const PixelRange pixels = problem_.pixels_of(p, q);
    int64_t at = x_offset(pixels.h_begin, pixels.w_begin);
    T largest = -std::numeric_limits<T>::infinity();
    for_each_pixel(pixels, [&](int h, int w) {
      const int64_t offset = x_offset(h, w);
      if (!takes_over(x[offset], largest)) return;
      largest = x[offset];
      at = offset;
    });
    return at;
  }
};

}  // namespace

ImplEntry<Pool2dProblem> max_pool2d_cpu_reference() {
  return {"cpu_reference", supports_all, make_implementation<MaxPool2dCpuReference>};
}

}  // namespace duet
