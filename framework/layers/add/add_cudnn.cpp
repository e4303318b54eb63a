// Add, cudnn: cudnnOpTensor sums two tensors; each one more is a call more that reads and writes
// the sum so far. add_relu takes one call more, for relu or its gradient.
#include "device/cudnn_descriptors.h"
#include "layers/add/add.h"

namespace duet {
namespace {

class AddCudnn : public AddImpl {
 public:
  explicit AddCudnn(const AddProblem& problem) : AddImpl(problem), tensor_(problem.x) {}

  std::vector<std::string> calls(Pass pass) const override {
    const bool forward = pass == Pass::kForward;
    const int64_t sums = (forward ? problem_.inputs : problem_.outputs) - 1;
    std::vector<std::string> calls(static_cast<size_t>(sums), "cudnnOpTensor");
    if (problem_.relu) {
      calls.emplace_back(forward ? "cudnnActivationForward" : "cudnnActivationBackward");
    }
    return calls;
  }

  void sum(const Run& run, const std::vector<Tensor>& from, Then then, const Tensor& y,
           const Tensor& to) override {
    const float one = 1.0f, zero = 0.0f;
    for (size_t k = 1; k < from.size(); ++k) {
      const void* so_far = k == 1 ? from[0].memory : to.memory;
      DUET_CUDNN(cudnnOpTensor(run.context.cudnn(), add_.get(), &one, tensor_.get(), so_far, &one,
                               tensor_.get(), from[k].memory, &zero, tensor_.get(), to.memory));
    }
    const void* sum = from.size() == 1 ? from[0].memory : to.memory;
    if (then == Then::kRelu) {
      DUET_CUDNN(cudnnActivationForward(run.context.cudnn(), relu_.get(), &one, tensor_.get(), sum,
                                        &zero, tensor_.get(), to.memory));
    }
    if (then == Then::kReluGradient) {  // y is above 0 where what relu read was
      DUET_CUDNN(cudnnActivationBackward(run.context.cudnn(), relu_.get(), &one, tensor_.get(),
                                         y.memory, tensor_.get(), sum, tensor_.get(), y.memory,
                                         &zero, tensor_.get(), to.memory));
    }
  }

 private:
  const gpu::TensorDescriptor tensor_;
  const gpu::OpTensorDescriptor add_{CUDNN_OP_TENSOR_ADD};
  const gpu::ActivationDescriptor relu_{CUDNN_ACTIVATION_RELU};
};

std::optional<std::string> unsupported(const AddProblem& problem, Pass pass) {
  const int64_t summed = pass == Pass::kForward ? problem.inputs : problem.outputs;
  if (problem.dtype == DType::kFloat32 || summed <= 2) return {};
  return "sums two tensors a call, and in bf16 each call would round the sum so far";
}

}  // namespace

ImplEntry<AddProblem> add_cudnn() {
  return impl_entry<AddCudnn>("cudnn", unsupported, gpu_dtypes());
}

}  // namespace duet
