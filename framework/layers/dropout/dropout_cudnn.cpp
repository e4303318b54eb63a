// dropout cudnn_own_masks: cudnnDropoutForward and -Backward. cuDNN's generator is started once, from the
// seed and the layer's stream; its state lies in device memory and moves on with every forward pass in
// training, in a replayed graph too. So the masks are a function of the seed and of how many passes
// there were before, and neither the reference's nor of the step (layers/own_masks.h).
//
//   state      cuDNN's reserve space: the mask
#include "device/cudnn_descriptors.h"
#include "layers/dropout/dropout.h"

namespace duet {
namespace {

class DropoutCudnn : public DropoutImpl {
 public:
  explicit DropoutCudnn(const DropoutProblem& problem) : DropoutImpl(problem), tensor_(problem.x) {
    DUET_CUDNN(cudnnDropoutGetReserveSpaceSize(tensor_.get(), &mask_bytes_));
  }

  void prepare(Pass, Context& context) override {
    if (states_.bytes() > 0) return;
    size_t bytes = 0;
    DUET_CUDNN(cudnnDropoutGetStatesSize(context.cudnn(), &bytes));
    states_ = Buffer(Device::kGpu, bytes);
    const Philox4 words = philox_block(problem_.seed, 0, problem_.stream, 0);
    dropout_.set(context.cudnn(), problem_.p, states_.data(), bytes,
                 uint64_t{words.v[1]} << 32 | words.v[0]);
  }
  size_t state_bytes() const override { return mask_bytes_; }
  std::string detail(Pass) const override { return "masks of cuDNN's generator"; }
  std::vector<std::string> calls(Pass pass) const override {
    return {pass == Pass::kForward ? "cudnnDropoutForward" : "cudnnDropoutBackward"};
  }

  void forward(const Run& run, const Tensor& x, const Tensor& y, const Tensor& state) override {
    if (!run.training) return run.context.queue_copy(y.memory, x.memory, x.bytes());
    DUET_CUDNN(cudnnDropoutForward(run.context.cudnn(), dropout_.get(), tensor_.get(), x.memory,
                                   tensor_.get(), y.memory, state.memory, mask_bytes_));
  }
  void backward(const Run& run, const Tensor&, const Tensor&, const Tensor& dy, const Tensor& state,
                const Tensor& dx) override {
    if (!run.training) return run.context.queue_copy(dx.memory, dy.memory, dy.bytes());
    DUET_CUDNN(cudnnDropoutBackward(run.context.cudnn(), dropout_.get(), tensor_.get(), dy.memory,
                                    tensor_.get(), dx.memory, state.memory, mask_bytes_));
  }

 private:
  const gpu::TensorDescriptor tensor_;  // x, y, dx and dy alike
  gpu::DropoutDescriptor dropout_;
  Buffer states_;
  size_t mask_bytes_ = 0;
};

std::optional<std::string> unsupported(const DropoutProblem& problem, Pass) {
  if (problem.x.shape.rank() > 4) return "takes tensors of up to four axes";
  if (problem.x.elements() > (int64_t{1} << 31) - 1) return "numbers elements in 32 bits";
  return {};
}

}  // namespace

ImplEntry<DropoutProblem> dropout_cudnn_own_masks() {
  return impl_entry<DropoutCudnn>("cudnn_own_masks", unsupported);
}

}  // namespace duet
