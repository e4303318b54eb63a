// Pixel shuffle, cudnn: cudnnTransformTensor, y = 1 * x + 0 * y, between two descriptors of the
// same values, which differ in strides. Five axes change places: i, j, H, W and what lies around
// them. A descriptor of images has four, so each i is a call of its own, which fills every r-th row
// of y.
#include "device/cudnn_descriptors.h"
#include "layers/pixel_shuffle/pixel_shuffle.h"

namespace duet {
namespace {

/// The values of one i, as each of the tensors has them.
struct Views {
  gpu::StridedDescriptor in_x, in_y;
  int64_t x_step, y_step;  // elements from one i to the next
};

Views views_of(const PixelShuffleProblem& problem) {
  const Shape& x = problem.x.shape;
  const int64_t n = x[0], h = x[2], w = x[3], c = problem.y.shape[1], r = problem.scale;
  const DType dtype = problem.dtype;
  if (problem.x.layout == Layout::kNCHW) {
    const gpu::StridedDescriptor::Four sizes = {n * c, r, h, w};  // j stands in the place of C
    const int64_t plane = h * w, image = r * r * plane;
    return {{dtype, sizes, {image, plane, w, 1}},
            {dtype, sizes, {image, 1, r * r * w, r}},
            r * plane,
            r * w};
  }
  const gpu::StridedDescriptor::Four sizes = {n * h, r, w, c};
  const int64_t pixel = r * r * c, row = w * pixel;
  return {{dtype, sizes, {row, 1, pixel, r * r}}, {dtype, sizes, {row, c, r * c, 1}}, r, r * w * c};
}

class PixelShuffleCudnn : public PixelShuffleImpl {
 public:
  explicit PixelShuffleCudnn(const PixelShuffleProblem& problem)
      : PixelShuffleImpl(problem), views_(views_of(problem)) {}

  std::vector<std::string> calls(Pass) const override {
    return std::vector<std::string>(static_cast<size_t>(problem_.scale), "cudnnTransformTensor");
  }

  void shuffle(const Run& run, const Tensor& x, const Tensor& y) override {
    move(run, views_.in_x, x, views_.x_step, views_.in_y, y, views_.y_step);
  }
  void unshuffle(const Run& run, const Tensor& dy, const Tensor& dx) override {
    move(run, views_.in_y, dy, views_.y_step, views_.in_x, dx, views_.x_step);
  }

 private:
  void move(const Run& run, const gpu::StridedDescriptor& in_from, const Tensor& from,
            int64_t from_step, const gpu::StridedDescriptor& in_to, const Tensor& to,
            int64_t to_step) const {
    const float one = 1.0f, zero = 0.0f;
    const auto size = static_cast<int64_t>(size_of(problem_.dtype));
    for (int64_t i = 0; i < problem_.scale; ++i) {
      DUET_CUDNN(cudnnTransformTensor(run.context.cudnn(), &one, in_from.get(),
                                      from.data<char>() + i * from_step * size, &zero, in_to.get(),
                                      to.data<char>() + i * to_step * size));
    }
  }

  const Views views_;
};

}  // namespace

ImplEntry<PixelShuffleProblem> pixel_shuffle_cudnn() {
  return impl_entry<PixelShuffleCudnn>("cudnn", supports_all, gpu_dtypes());
}

}  // namespace duet
