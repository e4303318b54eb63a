// Softmax cross-entropy, cudnn. cuDNN has the softmax but no loss: cudnnSoftmaxForward gives
// log softmax(x), kernels of our own (softmax_cross_entropy_pick.cu) pick the labels' entries, take
// the mean and count the hits. Backwards they write the gradient of the log-softmax, zero but for
// one entry a row without label smoothing, and cudnnSoftmaxBackward makes dx of it:
//   dx = d - exp(log_softmax) * sum over the row of d.
// All of that is in float32. Logits in bfloat16 are widened before, and dx is rounded after
// (kernels/convert.h): log_softmax in bfloat16 would have too few digits for the loss.
#include "core/arena.h"
#include "device/cudnn_descriptors.h"
#include "kernels/convert.h"
#include "layers/softmax_cross_entropy/softmax_cross_entropy.h"
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
        logits_(TensorDesc{{problem.n, problem.c}}) {}

  size_t workspace_bytes(Pass pass) const override {
    if (!narrow()) return pass == Pass::kForward ? pick_.workspace_bytes() : logits_bytes();
    return wide_offset(pass) + logits_bytes();
  }
  size_t state_bytes() const override { return logits_bytes() + sizeof(float); }
  std::string detail(Pass) const override {
    return std::string("softmax log + own label pick") + (narrow() ? " and conversion" : "");
  }

  std::vector<std::string> calls(Pass pass) const override {
    return {pass == Pass::kForward ? "cudnnSoftmaxForward" : "cudnnSoftmaxBackward"};
  }

  void forward(const Run& run, const Tensor& x, const Tensor& labels, const Tensor& loss,
               const Tensor& hits, const Tensor& state) override {
    const float* logits = x.data<float>();
    if (narrow()) {
      float* wide = wide_part(run, Pass::kForward);
      queue_conversion(x.data<bfloat16>(), wide, problem_.elements(), run.stream());
      logits = wide;
    }
    DUET_CUDNN(cudnnSoftmaxForward(run.context.cudnn(), kAlgorithm, kMode, &kOne, logits_.get(),
                                   logits, &kZero, logits_.get(), state.memory));
    pick_.forward(run, logits, state.data<float>(), labels, loss, hits, weight(state));
  }

  void backward(const Run& run, const Tensor&, const Tensor& labels, const Tensor&,
                const Tensor& dloss, const Tensor& state, const Tensor& dx) override {
    float* d_log_softmax = static_cast<float*>(run.workspace);
    pick_.backward(run, labels, dloss, weight(state), d_log_softmax);
    float* gradient = narrow() ? wide_part(run, Pass::kBackward) : dx.data<float>();
    DUET_CUDNN(cudnnSoftmaxBackward(run.context.cudnn(), kAlgorithm, kMode, &kOne, logits_.get(),
                                    state.memory, logits_.get(), d_log_softmax, &kZero,
                                    logits_.get(), gradient));
    if (narrow()) {
      queue_conversion(gradient, dx.data<bfloat16>(), problem_.elements(), run.stream());
    }
  }

 private:
  bool narrow() const { return problem_.dtype == DType::kBFloat16; }
  /// Where x or dx in float32 stands in the workspace, behind what the pass has there anyway.
  size_t wide_offset(Pass pass) const {
    return align_up(pass == Pass::kForward ? pick_.workspace_bytes() : logits_bytes());
  }
  float* wide_part(const Run& run, Pass pass) const {
    return reinterpret_cast<float*>(static_cast<char*>(run.workspace) + wide_offset(pass));
  }
  float* weight(const Tensor& state) const { return state.data<float>() + problem_.elements(); }
  size_t logits_bytes() const { return problem_.elements() * sizeof(float); }

  LabelPick pick_;
  const gpu::TensorDescriptor logits_;
};

}  // namespace

ImplEntry<SoftmaxCrossEntropyProblem> softmax_cross_entropy_cudnn() {
  return impl_entry<SoftmaxCrossEntropyCudnn>("cudnn", supports_all, gpu_dtypes());
}

}  // namespace duet
