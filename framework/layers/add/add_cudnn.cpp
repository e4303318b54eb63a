// Add, cudnn: cudnnOpTensor sums two tensors; each one more is a call more that reads and writes
// the sum so far.
#include "device/cudnn_descriptors.h"
#include "layers/add/add.h"

namespace duet {
namespace {

class AddCudnn : public AddImpl {
 public:
  explicit AddCudnn(const AddProblem& problem) : AddImpl(problem), tensor_(problem.x) {}

  std::vector<std::string> calls(Pass) const override {
    const int64_t calls = problem_.inputs + problem_.outputs - 2;
    return std::vector<std::string>(static_cast<size_t>(calls), "cudnnOpTensor");
  }

  void sum(const Run& run, const std::vector<Tensor>& from, const Tensor& to) override {
    const float one = 1.0f, zero = 0.0f;
    for (size_t k = 1; k < from.size(); ++k) {
      const void* so_far = k == 1 ? from[0].memory : to.memory;
      DUET_CUDNN(cudnnOpTensor(run.context.cudnn(), add_.get(), &one, tensor_.get(), so_far, &one,
                               tensor_.get(), from[k].memory, &zero, tensor_.get(), to.memory));
    }
  }

 private:
  const gpu::TensorDescriptor tensor_;
  const gpu::OpTensorDescriptor add_{CUDNN_OP_TENSOR_ADD};
};

std::optional<std::string> unsupported(const AddProblem& problem, Pass) {
  if (problem.dtype == DType::kFloat32 || problem.inputs + problem.outputs <= 3) return {};
  return "sums two tensors a call, and in bf16 each call would round the sum so far";
}

}  // namespace

ImplEntry<AddProblem> add_cudnn() {
  return impl_entry<AddCudnn>("cudnn", unsupported, gpu_dtypes());
}

}  // namespace duet
