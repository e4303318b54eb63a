// max_pool2d, avg_pool2d and global_avg_pool2d, cpu_reference: the definitions as loops. Backward of
// the maximum looks for it again, so nothing is kept between the passes. Forward of an average sums
// in double: a window may be the image.
#include <algorithm>
#include <limits>

#include "core/parallel.h"
#include "layers/pool2d/pool2d.h"
#include "layers/rounded_sums.h"

namespace duet {
namespace {

template <class T>
class Pool2dCpuReference : public Pool2dImpl {
 public:
  using Pool2dImpl::Pool2dImpl;
  using Sum = Accumulator<T>;

  size_t workspace_bytes(Pass pass) const override {
    return pass == Pass::kForward ? 0 : sum_bytes(problem_.x_desc());
  }

  void forward(const Run&, const Tensor& x, const Tensor& y, const Tensor&) override {
    const T* in = x.data<T>();
    for_each_output([&](const PixelRange& pixels, auto x_offset, int64_t output) {
      y.data<T>()[output] = problem_.kind == PoolKind::kMax
                                ? in[offset_of_largest(in, x_offset, pixels)]
                                : mean(in, x_offset, pixels);
    });
  }

  void backward(const Run& run, const Tensor& x, const Tensor&, const Tensor& dy, const Tensor&,
                const Tensor& dx) override {
    Sum* sums = sums_of<T>(dx, run);
    std::fill_n(sums, dx.elements(), Sum(0));
    for_each_output([&](const PixelRange& pixels, auto x_offset, int64_t output) {
      const Sum gradient = dy.data<T>()[output];
      if (problem_.kind == PoolKind::kMax) {
        sums[offset_of_largest(x.data<T>(), x_offset, pixels)] += gradient;
        return;
      }
      const Sum share = gradient / static_cast<Sum>(problem_.divisor(pixels));
      for_each_pixel(pixels, [&](int h, int w) { sums[x_offset(h, w)] += share; });
    });
    store_sums<T>(sums, dx);
  }

 private:
  /// Calls visit(pixels, x_offset, output) for each output, which stands there in y (or dy);
  /// x_offset(h, w) is where a pixel of its channel stands in x. Channels run in parallel: none
  /// touches another.
  template <class Visit>
  void for_each_output(Visit&& visit) const {
    const TensorDesc x = problem_.x_desc(), y = problem_.y_desc();
    constexpr int64_t kOperations = 4;  // a pixel
    const int64_t planes = int64_t{problem_.n} * problem_.c;
    const int64_t operations = planes > 0 ? kOperations * x.elements() / planes : 1;
    parallel_ranges(planes, operations, [&](int64_t first, int64_t last) {
      for (int64_t plane = first; plane < last; ++plane) {
        const int64_t n = plane / problem_.c, c = plane % problem_.c;
        const auto x_offset = [&](int h, int w) { return offset_of(x, n, c, h, w); };
        for (int p = 0; p < problem_.p; ++p) {
          for (int q = 0; q < problem_.q; ++q) {
            visit(problem_.pixels_of(p, q), x_offset, offset_of(y, n, c, p, q));
          }
        }
      }
    });
  }

  /// Calls visit(h, w) for each pixel of a range, in row-major order.
  template <class Visit>
  static void for_each_pixel(const PixelRange& pixels, Visit&& visit) {
    for (int h = pixels.h_begin; h < pixels.h_end; ++h) {
      for (int w = pixels.w_begin; w < pixels.w_end; ++w) visit(h, w);
    }
  }

  template <class Offset>
  T mean(const T* x, const Offset& x_offset, const PixelRange& pixels) const {
    double sum = 0;
    for_each_pixel(pixels, [&](int h, int w) { sum += x[x_offset(h, w)]; });
    return T(sum / problem_.divisor(pixels));
  }

  template <class Offset>
  static int64_t offset_of_largest(const T* x, const Offset& x_offset, const PixelRange& pixels) {
    int64_t at = x_offset(pixels.h_begin, pixels.w_begin);
    Sum largest = -std::numeric_limits<Sum>::infinity();
    for_each_pixel(pixels, [&](int h, int w) {
      const int64_t offset = x_offset(h, w);
      const Sum value = x[offset];
      if (!takes_over(value, largest)) return;
      largest = value;
      at = offset;
    });
    return at;
  }
};

}  // namespace

ImplEntry<Pool2dProblem> pool2d_cpu_reference() { return reference_entry<Pool2dCpuReference>(); }

}  // namespace duet
