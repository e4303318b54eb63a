// softmax cudnn: cudnnSoftmaxForward and -Backward. Rows that are neighbours in memory are one
// image each; else (the last axis of images in nhwc) they are the channels of outer x inner pixels.
#include "device/cudnn_descriptors.h"
#include "layers/softmax/softmax.h"

namespace duet {
namespace {

constexpr cudnnSoftmaxAlgorithm_t kAlgorithm = CUDNN_SOFTMAX_ACCURATE;  // subtracts the maximum
constexpr float kOne = 1.0f;
constexpr float kZero = 0.0f;

class SoftmaxCudnn : public SoftmaxImpl {
 public:
  explicit SoftmaxCudnn(const SoftmaxProblem& problem)
      : SoftmaxImpl(problem),
        mode_(problem.inner() == 1 ? CUDNN_SOFTMAX_MODE_INSTANCE : CUDNN_SOFTMAX_MODE_CHANNEL),
        tensor_(
            TensorDesc{{problem.outer(), problem.columns(), problem.inner(), 1}, problem.dtype}) {}

  std::vector<std::string> calls(Pass pass) const override {
    return {pass == Pass::kForward ? "cudnnSoftmaxForward" : "cudnnSoftmaxBackward"};
  }

  void forward(const Run& run, const Tensor& x, const Tensor& y, const Tensor&) override {
    DUET_CUDNN(cudnnSoftmaxForward(run.context.cudnn(), kAlgorithm, mode_, &kOne, tensor_.get(),
                                   x.memory, &kZero, tensor_.get(), y.memory));
  }

  void backward(const Run& run, const Tensor&, const Tensor& y, const Tensor& dy, const Tensor&,
                const Tensor& dx) override {
    DUET_CUDNN(cudnnSoftmaxBackward(run.context.cudnn(), kAlgorithm, mode_, &kOne, tensor_.get(),
                                    y.memory, tensor_.get(), dy.memory, &kZero, tensor_.get(),
                                    dx.memory));
  }

 private:
  const cudnnSoftmaxMode_t mode_;
  const gpu::TensorDescriptor tensor_;  // x, y, dx and dy alike
};

std::optional<std::string> unsupported(const SoftmaxProblem& problem, Pass pass) {
  if (problem.dtype == DType::kBFloat16 && pass == Pass::kBackward) {
    return "takes the gradient from y, of which bf16 keeps too few digits near 1";
  }
  // Measured on an H200: y errs by 1.27 times what one rounding may cost.
  if (problem.dtype == DType::kBFloat16 && (problem.columns() > 1024 || problem.inner() != 1)) {
    return "rounds y twice in bf16 where rows are longer than 1024 or lie across memory";
  }
  if (problem.x.elements() > ConfigReader::kMaxInteger) {
    return "numbers elements in 32 bits; use a smaller batch";
  }
  return {};
}

}  // namespace

ImplEntry<SoftmaxProblem> softmax_cudnn() {
  return impl_entry<SoftmaxCudnn>("cudnn", unsupported, gpu_dtypes());
}

}  // namespace duet
