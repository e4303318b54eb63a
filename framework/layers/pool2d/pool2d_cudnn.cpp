// max_pool2d, avg_pool2d and global_avg_pool2d, cudnn: modes of cudnnPoolingForward and -Backward.
// cuDNN keeps nothing between the passes: backward finds each window's largest value again in x and
// y.
#include "device/cudnn_descriptors.h"
#include "device/graph_time.h"
#include "device/tuning_cache.h"
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

gpu::PoolingDescriptor descriptor_of(const Pool2dProblem& problem, cudnnPoolingMode_t mode) {
  return gpu::PoolingDescriptor({.mode = mode,
                                 .window_h = problem.r,
                                 .window_w = problem.s,
                                 .pad_h = problem.pad_h,
                                 .pad_w = problem.pad_w,
                                 .stride_h = problem.stride_h,
                                 .stride_w = problem.stride_w});
}

/// True if no pixel is in two windows: each dx is one dy or 0, and there is nothing to add up.
bool windows_are_apart(const Pool2dProblem& problem) {
  return problem.stride_h >= problem.r && problem.stride_w >= problem.s;
}

class Pool2dCudnn : public Pool2dImpl {
 public:
  explicit Pool2dCudnn(const Pool2dProblem& problem)
      : Pool2dImpl(problem),
        x_(problem.x_desc()),
        y_(problem.y_desc()),
        forward_(descriptor_of(problem, mode_of(problem))),
        backward_(descriptor_of(problem, backward_mode_)) {}

  /// Where windows are apart, CUDNN_POOLING_MAX gives the same bits, and mostly in half the time
  /// (README.md); not always, so both are timed.
  void prepare(Pass pass, Context& context) override {
    if (pass != Pass::kBackward || problem_.kind != PoolKind::kMax) return;
    if (!windows_are_apart(problem_)) return;
    static TuningCache cache(TuningCache::path_of("cudnn_algorithms.json"));
    const std::string key = "max pooling backward | " + problem_.to_string() + " | " + gpu_name() +
                            " | cuDNN " + std::to_string(cudnnGetVersion());
    if (const auto entry = cache.find(key); entry && entry->count("deterministic")) {
      set_backward_mode(entry->at("deterministic") ? CUDNN_POOLING_MAX_DETERMINISTIC
                                                   : CUDNN_POOLING_MAX);
      return;
    }
    choose_backward_mode(context);
    cache.insert(key, {{"deterministic", backward_mode_ == CUDNN_POOLING_MAX_DETERMINISTIC}});
  }

  std::string detail(Pass pass) const override {
    switch (pass == Pass::kForward ? mode_of(problem_) : backward_mode_) {
      case CUDNN_POOLING_MAX:
        return "max";
      case CUDNN_POOLING_MAX_DETERMINISTIC:
        return "max deterministic";
      case CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING:
        return "average include padding";
      default:
        return "average exclude padding";
    }
  }

  std::vector<std::string> calls(Pass pass) const override {
    return {pass == Pass::kForward ? "cudnnPoolingForward" : "cudnnPoolingBackward"};
  }

  void forward(const Run& run, const Tensor& x, const Tensor& y, const Tensor&) override {
    DUET_CUDNN(cudnnPoolingForward(run.context.cudnn(), forward_.get(), &kOne, x_.get(), x.memory,
                                   &kZero, y_.get(), y.memory));
  }

  void backward(const Run& run, const Tensor& x, const Tensor& y, const Tensor& dy, const Tensor&,
                const Tensor& dx) override {
    run_backward(run.context, x.memory, y.memory, dy.memory, dx.memory);
  }

 private:
  void choose_backward_mode(Context& context) {
    const Buffer x(Device::kGpu, problem_.x_desc().bytes()), dx(Device::kGpu, x.bytes());
    const Buffer y(Device::kGpu, problem_.y_desc().bytes()), dy(Device::kGpu, y.bytes());
    for (const Buffer* buffer : {&x, &y, &dy}) {
      fill_bytes(buffer->data(), Device::kGpu, 0x3c, buffer->bytes());  // 0.0115 as a float
    }
    const auto time = [&] {
      return microseconds_in_graph(
          context, [&] { run_backward(context, x.data(), y.data(), dy.data(), dx.data()); });
    };
    set_backward_mode(CUDNN_POOLING_MAX_DETERMINISTIC);
    const double deterministic = time();
    set_backward_mode(CUDNN_POOLING_MAX);
    if (time() > deterministic) set_backward_mode(CUDNN_POOLING_MAX_DETERMINISTIC);
  }

  void set_backward_mode(cudnnPoolingMode_t mode) {
    backward_mode_ = mode;
    backward_ = descriptor_of(problem_, mode);
  }

  void run_backward(Context& context, const void* x, const void* y, const void* dy, void* dx) {
    DUET_CUDNN(cudnnPoolingBackward(context.cudnn(), backward_.get(), &kOne, y_.get(), y, y_.get(),
                                    dy, x_.get(), x, &kZero, x_.get(), dx));
  }

  const gpu::TensorDescriptor x_, y_;  // dx and dy have the same
  const gpu::PoolingDescriptor forward_;
  cudnnPoolingMode_t backward_mode_ = mode_of(problem_);
  gpu::PoolingDescriptor backward_;
};

}  // namespace

ImplEntry<Pool2dProblem> pool2d_cudnn() {
  return impl_entry<Pool2dCudnn>("cudnn", supports_all, gpu_dtypes());
}

}  // namespace duet
