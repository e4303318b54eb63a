// Pixel shuffle, cpu_reference: loops over the elements of y, by the formula.
#include "core/parallel.h"
#include "layers/pixel_shuffle/pixel_shuffle.h"

namespace duet {
namespace {

template <class T>
class PixelShuffleCpuReference : public PixelShuffleImpl {
 public:
  using PixelShuffleImpl::PixelShuffleImpl;

  void shuffle(const Run&, const Tensor& x, const Tensor& y) override {
    for_each_place([from = x.data<T>(), to = y.data<T>()](int64_t in_x, int64_t in_y) {
      to[in_y] = from[in_x];
    });
  }
  void unshuffle(const Run&, const Tensor& dy, const Tensor& dx) override {
    for_each_place([from = dy.data<T>(), to = dx.data<T>()](int64_t in_x, int64_t in_y) {
      to[in_x] = from[in_y];
    });
  }

 private:
  /// Calls visit(offset in x, offset in y) for every value, by rows of y on several threads.
  template <class Visit>
  void for_each_place(const Visit& visit) const {
    const TensorDesc &x = problem_.x, &y = problem_.y;
    const int64_t r = problem_.scale, rows = y.shape[2];
    parallel_for(y.shape[0] * rows, y.elements(), [&](int64_t row) {
      const int64_t n = row / rows, h = row % rows / r, i = row % r;
      for (int64_t c = 0; c < y.shape[1]; ++c) {
        for (int64_t w = 0; w < x.shape[3]; ++w) {
          for (int64_t j = 0; j < r; ++j) {
            visit(offset_of(x, n, (c * r + i) * r + j, h, w),
                  offset_of(y, n, c, h * r + i, w * r + j));
          }
        }
      }
    });
  }
};

}  // namespace

ImplEntry<PixelShuffleProblem> pixel_shuffle_cpu_reference() {
  return reference_entry<PixelShuffleCpuReference>();
}

}  // namespace duet
