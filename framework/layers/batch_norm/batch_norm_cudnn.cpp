// batch_norm cudnn and cudnn_persistent: modes of cudnnBatchNormalizationForwardTraining,
// -ForwardInference and -Backward. Images are normalised by channel (CUDNN_BATCHNORM_SPATIAL, or
// CUDNN_BATCHNORM_SPATIAL_PERSISTENT), features by CUDNN_BATCHNORM_PER_ACTIVATION.
//
// cuDNN means what PyTorch means: exponentialAverageFactor weighs the new batch and the running
// variance is unbiased. It always has a weight and a bias; without affine they are ones and zeros
// here, and their gradients go to the workspace. So does dx where nobody needs it, as cuDNN cannot
// leave it out.
#include <vector>

#include "core/arena.h"
#include "device/cudnn_descriptors.h"
#include "layers/batch_norm/batch_norm.h"

namespace duet {
namespace {

constexpr float kOne = 1.0f, kZero = 0.0f;

/// cuDNN sees features as images of one pixel.
TensorDesc image_of(const BatchNormProblem& problem) {
  TensorDesc x = problem.x;
  if (x.shape.rank() == 2) x.shape = {x.shape[0], x.shape[1], 1, 1};
  return x;
}

template <bool persistent>
cudnnBatchNormMode_t mode_of(const BatchNormProblem& problem) {
  if (problem.x.shape.rank() == 2) return CUDNN_BATCHNORM_PER_ACTIVATION;
  return persistent ? CUDNN_BATCHNORM_SPATIAL_PERSISTENT : CUDNN_BATCHNORM_SPATIAL;
}

template <bool persistent>
class BatchNormCudnn : public BatchNormImpl {
 public:
  explicit BatchNormCudnn(const BatchNormProblem& problem)
      : BatchNormImpl(problem),
        x_(image_of(problem)),
        channel_(gpu::per_channel_descriptor(problem.channels(), accumulator_of(problem.dtype),
                                             problem.x.layout)) {
    if (problem.affine) return;
    const std::vector<float> ones(static_cast<size_t>(problem.channels()), 1.0f);
    constants_ = Buffer(Device::kGpu, 2 * part_bytes());
    fill_bytes(constants_.data(), Device::kGpu, 0, constants_.bytes());
    copy_bytes(constants_.data(), Device::kGpu, ones.data(), Device::kCpu,
               ones.size() * sizeof(float));
  }

  /// The mean of every channel, then every 1 / sqrt(var + eps).
  size_t state_bytes() const override { return 2 * part_bytes(); }
  size_t workspace_bytes(Pass pass) const override {
    return pass == Pass::kForward ? 0 : 2 * part_bytes() + problem_.x.bytes();
  }

  std::string detail(Pass) const override {
    switch (mode()) {
      case CUDNN_BATCHNORM_PER_ACTIVATION:
        return "per activation";
      case CUDNN_BATCHNORM_SPATIAL_PERSISTENT:
        return "spatial persistent";
      default:
        return "spatial";
    }
  }
  std::vector<std::string> calls(Pass pass) const override {
    return {pass == Pass::kForward ? "cudnnBatchNormalizationForwardTraining"
                                   : "cudnnBatchNormalizationBackward"};
  }

  void forward(const Run& run, const Tensor& x, const BatchNormParameters& w, const Tensor& y,
               const Tensor& state) override {
    const float *scale = weight_of(w), *bias = problem_.affine ? w.bias.data<float>() : zeros();
    if (!run.training) {
      DUET_CUDNN(cudnnBatchNormalizationForwardInference(
          run.context.cudnn(), mode(), &kOne, &kZero, x_.get(), x.memory, x_.get(), y.memory,
          channel_.get(), scale, bias, w.running_mean.memory, w.running_var.memory, problem_.eps));
      return;
    }
    DUET_CUDNN(cudnnBatchNormalizationForwardTraining(
        run.context.cudnn(), mode(), &kOne, &kZero, x_.get(), x.memory, x_.get(), y.memory,
        channel_.get(), scale, bias, problem_.momentum, w.running_mean.memory, w.running_var.memory,
        problem_.eps, part(state.memory, 0), part(state.memory, 1)));
  }

  void backward(const Run& run, const Tensor& x, const BatchNormParameters& w, const Tensor& dy,
                const Tensor& state, const Tensor& dx, const BatchNormParameters& dw) override {
    if (!run.training) {
      throw UnsupportedError(kNoBackwardInEvaluation);
    }
    void* unwanted = run.workspace;
    float* dweight = dw.weight ? dw.weight.data<float>() : part(unwanted, 0);
    float* dbias = dw.bias ? dw.bias.data<float>() : part(unwanted, 1);
    void* gradient = dx ? dx.memory : part(unwanted, 2);
    DUET_CUDNN(cudnnBatchNormalizationBackward(
        run.context.cudnn(), mode(), &kOne, &kZero, &kOne, &kZero, x_.get(), x.memory, x_.get(),
        dy.memory, x_.get(), gradient, channel_.get(), weight_of(w), dweight, dbias, problem_.eps,
        part(state.memory, 0), part(state.memory, 1)));
  }

 private:
  cudnnBatchNormMode_t mode() const { return mode_of<persistent>(problem_); }
  /// Values of all channels, with what aligns the next.
  size_t part_bytes() const { return align_up(problem_.channel_desc().bytes()); }
  float* part(void* memory, size_t number) const {
    return reinterpret_cast<float*>(static_cast<char*>(memory) + number * part_bytes());
  }
  const float* weight_of(const BatchNormParameters& w) const {
    return problem_.affine ? w.weight.data<float>() : part(constants_.data(), 0);
  }
  const float* zeros() const { return part(constants_.data(), 1); }

  const gpu::TensorDescriptor x_, channel_;  // y, dx and dy as x; parameters as channel
  Buffer constants_;                         // without affine: ones, then zeros
};

std::optional<std::string> unsupported(const BatchNormProblem& problem, Pass pass) {
  if (auto reason = backward_needs_training(problem, pass)) return reason;
  if (problem.eps < CUDNN_BN_MIN_EPSILON) {
    return "takes an eps of " + std::to_string(CUDNN_BN_MIN_EPSILON) + " at least";
  }
  if (problem.x.elements() > ConfigReader::kMaxInteger) {
    return "takes fewer than 2^31 elements; use a smaller batch";
  }
  return {};
}

std::optional<std::string> unsupported_persistent(const BatchNormProblem& problem, Pass pass) {
  if (problem.x.shape.rank() == 2) return "cuDNN's persistent mode is of images; take 'cudnn'";
  return unsupported(problem, pass);
}

}  // namespace

ImplEntry<BatchNormProblem> batch_norm_cudnn() {
  return impl_entry<BatchNormCudnn<false>>("cudnn", unsupported, gpu_dtypes());
}
ImplEntry<BatchNormProblem> batch_norm_cudnn_persistent() {
  return impl_entry<BatchNormCudnn<true>>("cudnn_persistent", unsupported_persistent, gpu_dtypes());
}

}  // namespace duet
