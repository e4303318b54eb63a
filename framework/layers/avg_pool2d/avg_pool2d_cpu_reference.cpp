// avg_pool2d and global_avg_pool2d, cpu_reference: the definition as loops. Forward sums in double:
// a window may be the image.
#include <algorithm>

#include "layers/avg_pool2d/avg_pool2d_impls.h"
#include "layers/pool2d/pool2d_cpu.h"
#include "layers/rounded_sums.h"

namespace duet {
namespace {

class AvgPool2dCpuReference : public Pool2dImpl {
 public:
  using Pool2dImpl::Pool2dImpl;

  size_t workspace_bytes(Pass pass) const override {
    return pass == Pass::kForward ? 0 : sum_bytes(problem_.x_desc());
  }

  void forward(const Run&, const Tensor& x, const Tensor& y, const Tensor&) override {
    visit_storage(problem_.dtype, [&](auto zero) {
      using T = decltype(zero);
      forward(x.data<T>(), y.data<T>());
    });
  }

  void backward(const Run& run, const Tensor&, const Tensor&, const Tensor& dy, const Tensor&,
                const Tensor& dx) override {
    visit_storage(problem_.dtype, [&](auto zero) {
      using T = decltype(zero);
      Accumulator<T>* sums = sums_of<T>(dx, run);
      backward(dy.data<T>(), sums);
      store_sums<T>(sums, dx);
    });
  }

 private:
  template <class T>
  void forward(const T* x, T* y) {
    for_each_plane(problem_, [&](auto x_offset, auto y_offset) {
      for_each_output(problem_, [&](int p, int q) {
        const PixelRange pixels = problem_.pixels_of(p, q);
        double sum = 0;
        for_each_pixel(pixels, [&](int h, int w) { sum += x[x_offset(h, w)]; });
        y[y_offset(p, q)] = T(sum / problem_.divisor(pixels));
      });
    });
  }

  template <class T, class Sum>
  void backward(const T* dy, Sum* dx) {
    std::fill_n(dx, problem_.x_desc().elements(), Sum(0));
    for_each_plane(problem_, [&](auto x_offset, auto y_offset) {
      for_each_output(problem_, [&](int p, int q) {
        const PixelRange pixels = problem_.pixels_of(p, q);
        const Sum share = dy[y_offset(p, q)] / static_cast<Sum>(problem_.divisor(pixels));
        for_each_pixel(pixels, [&](int h, int w) { dx[x_offset(h, w)] += share; });
      });
    });
  }
};

}  // namespace

ImplEntry<Pool2dProblem> avg_pool2d_cpu_reference() {
  return {.id = "cpu_reference",
          .unsupported = supports_all,
          .make = make_implementation<AvgPool2dCpuReference>,
          .dtypes = reference_dtypes()};
}

}  // namespace duet
