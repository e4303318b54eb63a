// avg_pool2d and global_avg_pool2d, cpu_reference: the definition as loops, float or double. Sums
// are in double: a window may be the image.
#include <algorithm>

#include "layers/avg_pool2d/avg_pool2d_impls.h"
#include "layers/pool2d/pool2d_cpu.h"

namespace duet {
namespace {

class AvgPool2dCpuReference : public Pool2dImpl {
 public:
  using Pool2dImpl::Pool2dImpl;

  void forward(Context&, const Tensor& x, const Tensor& y, const Tensor&) override {
    problem_.dtype == DType::kFloat64 ? forward(x.data<double>(), y.data<double>())
                                      : forward(x.data<float>(), y.data<float>());
  }

  void backward(Context&, const Tensor&, const Tensor&, const Tensor& dy, const Tensor&,
                const Tensor& dx) override {
    problem_.dtype == DType::kFloat64 ? backward(dy.data<double>(), dx.data<double>())
                                      : backward(dy.data<float>(), dx.data<float>());
  }

 private:
  template <class T>
  void forward(const T* x, T* y) {
    for_each_plane(problem_, [&](auto x_offset, auto y_offset) {
      for_each_output(problem_, [&](int p, int q) {
        const PixelRange pixels = problem_.pixels_of(p, q);
        double sum = 0;
        for_each_pixel(pixels, [&](int h, int w) { sum += x[x_offset(h, w)]; });
        y[y_offset(p, q)] = static_cast<T>(sum / problem_.divisor(pixels));
      });
    });
  }

  template <class T>
  void backward(const T* dy, T* dx) {
    std::fill_n(dx, problem_.x_desc().elements(), T(0));
    for_each_plane(problem_, [&](auto x_offset, auto y_offset) {
      for_each_output(problem_, [&](int p, int q) {
        const PixelRange pixels = problem_.pixels_of(p, q);
        const T share = dy[y_offset(p, q)] / static_cast<T>(problem_.divisor(pixels));
        for_each_pixel(pixels, [&](int h, int w) { dx[x_offset(h, w)] += share; });
      });
    });
  }
};

}  // namespace

ImplEntry<Pool2dProblem> avg_pool2d_cpu_reference() {
  return {"cpu_reference", supports_all, make_implementation<AvgPool2dCpuReference>};
}

}  // namespace duet
