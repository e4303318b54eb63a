// max_pool2d cpu_reference: the definition as loops. Backward looks for the
// largest value again, so nothing is kept between the passes.
#include <algorithm>
#include <limits>

#include "layers/max_pool2d/max_pool2d_impls.h"
#include "layers/pool2d/pool2d_cpu.h"
#include "layers/rounded_sums.h"

namespace duet {
namespace {

class MaxPool2dCpuReference : public Pool2dImpl {
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

  void backward(const Run& run, const Tensor& x, const Tensor&, const Tensor& dy, const Tensor&,
                const Tensor& dx) override {
    visit_storage(problem_.dtype, [&](auto zero) {
      using T = decltype(zero);
      Accumulator<T>* sums = sums_of<T>(dx, run);
      backward(x.data<T>(), dy.data<T>(), sums);
      store_sums<T>(sums, dx);
    });
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

  template <class T, class Sum>
  void backward(const T* x, const T* dy, Sum* dx) {
    std::fill_n(dx, problem_.x_desc().elements(), Sum(0));
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
    Accumulator<T> largest = -std::numeric_limits<Accumulator<T>>::infinity();
    for_each_pixel(pixels, [&](int h, int w) {
      const int64_t offset = x_offset(h, w);
      const Accumulator<T> value = x[offset];
      if (!takes_over(value, largest)) return;
      largest = value;
      at = offset;
    });
    return at;
  }
};

}  // namespace

ImplEntry<Pool2dProblem> max_pool2d_cpu_reference() {
  return {.id = "cpu_reference",
          .unsupported = supports_all,
          .make = make_implementation<MaxPool2dCpuReference>,
          .dtypes = reference_dtypes()};
}

}  // namespace duet
