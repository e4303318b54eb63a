// max_pool2d and avg_pool2d, cudnn: modes of cudnnPoolingForward and -Backward. cuDNN keeps nothing
// between the passes: backward finds each window's largest value again in x and y.
#include "device/cudnn_descriptors.h"
#include "layers/pool2d/pool2d.h"

namespace duet {
namespace {

constexpr float kOne = 1.0f, kZero = 0.0f;

// CUDNN_POOLING_MAX adds up the gradients of overlapping windows in no fixed order.
cudnnPoolingMode_t mode_of(const Pool2dProblem& problem) {
  if (problem.kind == PoolKind::kMax) return CUDNN_POOLING_MAX_DETERMINISTIC;
  return problem.count_include_pad ? CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING
                                   : CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING;
}

class Pool2dCudnn : public Pool2dImpl {
 public:
  explicit Pool2dCudnn(const Pool2dProblem& problem)
      : Pool2dImpl(problem),
        x_(problem.x_desc()),
        y_(problem.y_desc()),
        pooling_({.mode = mode_of(problem),
                  .window_h = problem.r,
                  .window_w = problem.s,
                  .pad_h = problem.pad_h,
                  .pad_w = problem.pad_w,
                  .stride_h = problem.stride_h,
                  .stride_w = problem.stride_w}) {}

  std::string detail(Pass) const override {
    switch (mode_of(problem_)) {
      case CUDNN_POOLING_MAX_DETERMINISTIC:
        return "max deterministic";
      case CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING:
        return "average include padding";
      default:
        return "average exclude padding";
    }
  }

  void forward(Context& context, const Tensor& x, const Tensor& y, const Tensor&) override {
    DUET_CUDNN(cudnnPoolingForward(context.cudnn(), pooling_.get(), &kOne, x_.get(), x.memory,
                                   &kZero, y_.get(), y.memory));
  }

  void backward(Context& context, const Tensor& x, const Tensor& y, const Tensor& dy, const Tensor&,
                const Tensor& dx) override {
    DUET_CUDNN(cudnnPoolingBackward(context.cudnn(), pooling_.get(), &kOne, y_.get(), y.memory,
                                    y_.get(), dy.memory, x_.get(), x.memory, &kZero, x_.get(),
                                    dx.memory));
  }

 private:
  const gpu::TensorDescriptor x_, y_;  // dx and dy have the same
  const gpu::PoolingDescriptor pooling_;
};

}  // namespace

ImplEntry<Pool2dProblem> pool2d_cudnn() {
  return {"cudnn", supports_all, make_implementation<Pool2dCudnn>};
}

}  // namespace duet
