// Softmax cross-entropy, cudnn. cuDNN has the softmax but no loss: cudnnSoftmaxForward gives
// log softmax(x), kernels of our own (softmax_cross_entropy_pick.cu) pick the labels' entries, take
// the mean and count the hits. Backwards they write the gradient of the log-softmax, zero but for
// one entry a row, and cudnnSoftmaxBackward makes dx of it:
//   dx = d - exp(log_softmax) * sum over the row of d.
#include "device/cudnn_descriptors.h"
#include "layers/softmax_cross_entropy/softmax_cross_entropy_impls.h"
#include "layers/softmax_cross_entropy/softmax_cross_entropy_pick.h"

namespace duet {
namespace {

// LOG subtracts the maximum, as ACCURATE does, and keeps the logarithm of tiny probabilities.
constexpr cudnnSoftmaxAlgorithm_t kAlgorithm = CUDNN_SOFTMAX_LOG;
// One softmax an image, over C, H and W; H = W = 1 here.
constexpr cudnnSoftmaxMode_t kMode = CUDNN_SOFTMAX_MODE_INSTANCE;
constexpr float kOne = 1.0f;
constexpr float kZero = 0.0f;

class SoftmaxCrossEntropyCudnn : public SoftmaxCrossEntropyImpl {
 public:
  explicit SoftmaxCrossEntropyCudnn(const SoftmaxCrossEntropyProblem& problem)
      : SoftmaxCrossEntropyImpl(problem),
        pick_(problem),
        logits_(TensorDesc{{problem.n, problem.c}, problem.dtype}) {}

  size_t workspace_bytes(Pass pass) const override {
    return pass == Pass::kForward ? pick_.workspace_bytes() : logits_bytes();
  }
  size_t state_bytes() const override { return logits_bytes(); }
  std::string detail(Pass) const override { return "softmax log + own label pick"; }

  std::vector<std::string> calls(Pass pass) const override {
    return {pass == Pass::kForward ? "cudnnSoftmaxForward" : "cudnnSoftmaxBackward"};
  }

  void forward(const Run& run, const Tensor& x, const Tensor& labels, const Tensor& loss,
               const Tensor& hits, const Tensor& state) override {
    DUET_CUDNN(cudnnSoftmaxForward(run.context.cudnn(), kAlgorithm, kMode, &kOne, logits_.get(),
                                   x.memory, &kZero, logits_.get(), state.memory));
    pick_.forward(run, x.data<float>(), state.data<float>(), labels, loss, hits);
  }

  void backward(const Run& run, const Tensor&, const Tensor& labels, const Tensor& hits,
                const Tensor& dloss, const Tensor& state, const Tensor& dx) override {
    float* d_log_softmax = static_cast<float*>(run.workspace);
    pick_.backward(run, labels, hits, dloss, d_log_softmax);
    DUET_CUDNN(cudnnSoftmaxBackward(run.context.cudnn(), kAlgorithm, kMode, &kOne, logits_.get(),
                                    state.memory, logits_.get(), d_log_softmax, &kZero,
                                    logits_.get(), dx.memory));
  }

 private:
  size_t logits_bytes() const { return problem_.elements() * sizeof(float); }

  LabelPick pick_;
  const gpu::TensorDescriptor logits_;
};

}  // namespace

ImplEntry<SoftmaxCrossEntropyProblem> softmax_cross_entropy_cudnn() {
  return {"cudnn", supports_all, make_implementation<SoftmaxCrossEntropyCudnn>};
}

}  // namespace duet
