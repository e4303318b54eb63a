// Activations, cudnn. relu, sigmoid, tanh and silu (swish) are modes of cudnnActivationForward and -Backward.
// leaky_relu is none of them, but for 0 <= slope <= 1 it is the larger of x and slope * x:
//   forward   y  = max(1 * x, slope * x)               cudnnOpTensor
//   backward  dx = (1 - slope) * (dy where x > 0)      cudnnActivationBackward of relu
//             dx = dx + slope * dy                     cudnnAddTensor
// In bf16 that would round dx twice, and sigmoid and tanh take their gradients from y, of which
// bfloat16 keeps too few digits where it is close to 1: relu and silu have a backward pass.
#include "device/cudnn_descriptors.h"
#include "layers/activation/activation.h"

namespace duet {
namespace {

constexpr float kOne = 1.0f;
constexpr float kZero = 0.0f;

cudnnActivationMode_t mode_of(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::kRelu:
    case ActivationKind::kLeakyRelu:
      return CUDNN_ACTIVATION_RELU;
    case ActivationKind::kSigmoid:
      return CUDNN_ACTIVATION_SIGMOID;
    case ActivationKind::kTanh:
      return CUDNN_ACTIVATION_TANH;
    case ActivationKind::kSilu:
      return CUDNN_ACTIVATION_SWISH;
    case ActivationKind::kGelu:
    case ActivationKind::kGeluTanh:
      break;  // not in the list
  }
  throw std::logic_error("no such activation");
}

class ActivationCudnn : public ActivationImpl {
 public:
  explicit ActivationCudnn(const ActivationProblem& problem)
      : ActivationImpl(problem), tensor_(problem.x), activation_(mode_of(problem.kind)) {
    if (problem.kind == ActivationKind::kSilu) {
      DUET_CUDNN(cudnnSetActivationDescriptorSwishBeta(activation_.get(), 1.0));
    }
  }

  std::vector<std::string> calls(Pass pass) const override {
    return {pass == Pass::kForward ? "cudnnActivationForward" : "cudnnActivationBackward"};
  }

  void forward(const Run& run, const Tensor& x, const Tensor& y, const Tensor&) override {
    DUET_CUDNN(cudnnActivationForward(run.context.cudnn(), activation_.get(), &kOne, tensor_.get(),
                                      x.memory, &kZero, tensor_.get(), y.memory));
  }

  void backward(const Run& run, const Tensor& x, const Tensor& y, const Tensor& dy, const Tensor&,
                const Tensor& dx) override {
    backward_scaled(run.context, kOne, x, y, dy, dx);
  }

 protected:
  /// dx = scale * dy * gradient(x, y)
  void backward_scaled(Context& context, float scale, const Tensor& x, const Tensor& y,
                       const Tensor& dy, const Tensor& dx) {
    DUET_CUDNN(cudnnActivationBackward(context.cudnn(), activation_.get(), &scale, tensor_.get(),
                                       y.memory, tensor_.get(), dy.memory, tensor_.get(), x.memory,
                                       &kZero, tensor_.get(), dx.memory));
  }

  const gpu::TensorDescriptor tensor_;  // x, y, dx and dy alike
  const gpu::ActivationDescriptor activation_;
};

class LeakyReluCudnn : public ActivationCudnn {
 public:
  using ActivationCudnn::ActivationCudnn;

  std::string detail(Pass pass) const override {
    return pass == Pass::kForward ? "op tensor max" : "relu + add tensor";
  }
  std::vector<std::string> calls(Pass pass) const override {
    if (pass == Pass::kForward) return {"cudnnOpTensor"};
    return {"cudnnActivationBackward", "cudnnAddTensor"};
  }

  void forward(const Run& run, const Tensor& x, const Tensor& y, const Tensor&) override {
    DUET_CUDNN(cudnnOpTensor(run.context.cudnn(), max_.get(), &kOne, tensor_.get(), x.memory,
                             &problem_.slope, tensor_.get(), x.memory, &kZero, tensor_.get(),
                             y.memory));
  }

  void backward(const Run& run, const Tensor& x, const Tensor& y, const Tensor& dy, const Tensor&,
                const Tensor& dx) override {
    backward_scaled(run.context, 1.0f - problem_.slope, x, y, dy, dx);
    DUET_CUDNN(cudnnAddTensor(run.context.cudnn(), &problem_.slope, tensor_.get(), dy.memory, &kOne,
                              tensor_.get(), dx.memory));
  }

 private:
  const gpu::OpTensorDescriptor max_{CUDNN_OP_TENSOR_MAX};
};

std::optional<std::string> unsupported(const ActivationProblem& problem, Pass pass) {
  if (problem.dtype == DType::kBFloat16 && pass == Pass::kBackward) {
    if (problem.kind == ActivationKind::kLeakyRelu) {
      return "takes two calls to dx, and in bf16 each of them would round it";
    }
    if (problem.kind == ActivationKind::kSigmoid || problem.kind == ActivationKind::kTanh) {
      return "takes the gradient from y, of which bf16 keeps too few digits near 1";
    }
  }
  if (problem.kind == ActivationKind::kLeakyRelu && !(problem.slope >= 0 && problem.slope <= 1)) {
    return "cuDNN has leaky_relu only as max(x, slope * x), which needs 0 <= slope <= 1";
  }
  return {};
}

std::unique_ptr<Implementation> make(const ActivationProblem& problem, Context&) {
  if (problem.kind == ActivationKind::kLeakyRelu) return std::make_unique<LeakyReluCudnn>(problem);
  return std::make_unique<ActivationCudnn>(problem);
}

}  // namespace

ImplEntry<ActivationProblem> activation_cudnn() {
  return {.id = "cudnn", .unsupported = unsupported, .make = make, .dtypes = gpu_dtypes()};
}

}  // namespace duet
