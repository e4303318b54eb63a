// Reorder, cudnn: cudnnTransformTensor, y = 1 * x + 0 * y between descriptors that differ in
// strides.
#include "device/cudnn_descriptors.h"
#include "layers/reorder/reorder.h"

namespace duet {
namespace {

class ReorderCudnn : public ReorderImpl {
 public:
  explicit ReorderCudnn(const ReorderProblem& problem)
      : ReorderImpl(problem), x_(problem.x), y_(problem.y) {}

  std::vector<std::string> calls(Pass) const override { return {"cudnnTransformTensor"}; }

  void reorder(const Run& run, const Tensor& from, const Tensor& to) override {
    const bool forward = from.desc.layout == problem_.x.layout;
    const float one = 1.0f, zero = 0.0f;
    DUET_CUDNN(cudnnTransformTensor(run.context.cudnn(), &one, (forward ? x_ : y_).get(),
                                    from.memory, &zero, (forward ? y_ : x_).get(), to.memory));
  }

 private:
  const gpu::TensorDescriptor x_, y_;
};

}  // namespace

ImplEntry<ReorderProblem> reorder_cudnn() {
  return impl_entry<ReorderCudnn>("cudnn", supports_all, gpu_dtypes());
}

}  // namespace duet
