// conv2d cudnn: cuDNN's convolution, and how one talks to cuDNN.
//
// Every call to cuDNN takes the same four kinds of things:
//
//   a handle        the library's state on one GPU; it queues its kernels on the handle's stream.
//                   The Context owns it, and so all cuDNN work of a network is in order.
//   descriptors     what the memory means: sizes, data type, layout; how the filter moves. Made
//                   once, before the first step (Conv2dDescriptors, below).
//   pointers        the memory itself, in each call: one descriptor serves many buffers.
//   alpha and beta  y = alpha * result + beta * y. We overwrite: alpha 1, beta 0. With beta 0,
//                   what y held is not read, so it may be anything, NaN included.
//
// A convolution needs two more: an *algorithm* (the same sums can be had as a matrix product, by
// Winograd's transform, by FFT ...) and the *workspace* that this algorithm needs. Which is fastest
// depends on sizes and GPU and cannot be known, only measured: conv2d_algorithms_cudnn.cpp
// searches. And the arithmetic must be said: CUDNN_DEFAULT_MATH runs float32 convolutions in TF32
// on GPUs that have it, so fp32 asks for CUDNN_FMA_MATH.
//
// In bf16 x, w and y are bfloat16 and sums float32. The weights and the bias, which are float32,
// are rounded into the workspace at each call, and dw is widened from there. The bias is added
// inside, before y is rounded, wherever cuDNN has that. Some sizes have no algorithm that sums dw in
// float32: x and dy are widened then, and dw comes of float32 alone.
//
// The gradient of the bias is a sum of its own: conv2d_bias_gradient_cudnn.cpp.
#include <map>

#include "core/error.h"
#include "layers/conv2d/cudnn/conv2d_by_cudnn.h"

namespace duet {

Conv2dDescriptors::Conv2dDescriptors(const Conv2dProblem& problem)
    : x(problem.x_desc()),
      y(problem.y_desc()),
      bias(gpu::per_channel_descriptor(problem.k, problem.dtype, problem.layout)),
      w(as_stored(problem, problem.w_desc())),
      convolution(convolution_settings(problem)),
      identity(CUDNN_ACTIVATION_IDENTITY) {}

namespace {

// Scaling factors are read on the host, as float for float32 tensors.
constexpr float kOne = 1.0f, kZero = 0.0f;

}  // namespace

void run_by_cudnn(Pass pass, cudnnHandle_t cudnn, const Conv2dDescriptors& d,
                  const CudnnAlgorithm& algorithm, const Conv2dMemory& m) {
  if (pass == Pass::kBackwardData) {
    DUET_CUDNN(cudnnConvolutionBackwardData(
        cudnn, &kOne, d.w.get(), m.w, d.y.get(), m.y, d.convolution.get(),
        static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm.number), m.workspace,
        algorithm.workspace, &kZero, d.x.get(), m.x));
    return;
  }
  if (pass == Pass::kBackwardFilter) {
    DUET_CUDNN(cudnnConvolutionBackwardFilter(
        cudnn, &kOne, d.x.get(), m.x, d.y.get(), m.y, d.convolution.get(),
        static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm.number), m.workspace,
        algorithm.workspace, &kZero, d.w.get(), m.w));
    return;
  }
  const auto number = static_cast<cudnnConvolutionFwdAlgo_t>(algorithm.number);
  if (m.b && algorithm.adds_bias) {
    // y = identity(1 * conv(x, w) + 0 * z + b): a kernel less. z may be y; times 0, it is not read.
    DUET_CUDNN(cudnnConvolutionBiasActivationForward(
        cudnn, &kOne, d.x.get(), m.x, d.w.get(), m.w, d.convolution.get(), number, m.workspace,
        algorithm.workspace, &kZero, d.y.get(), m.y, d.bias.get(), m.b, d.identity.get(), d.y.get(),
        m.y));
    return;
  }
  DUET_CUDNN(cudnnConvolutionForward(cudnn, &kOne, d.x.get(), m.x, d.w.get(), m.w,
                                     d.convolution.get(), number, m.workspace, algorithm.workspace,
                                     &kZero, d.y.get(), m.y));
  if (m.b) {  // y = 1 * b + 1 * y, with b's sizes of 1 spread over y's
    DUET_CUDNN(cudnnAddTensor(cudnn, &kOne, d.bias.get(), m.b, &kOne, d.y.get(), m.y));
  }
}

namespace {

class Conv2dCudnn : public Conv2dByCudnn {
 public:
  explicit Conv2dCudnn(const Conv2dProblem& problem)
      : Conv2dByCudnn(problem), descriptors_(problem) {}

 private:
  void choose(Pass pass, Context& context) override {
    try {
      algorithms_[pass] = choose_algorithm(problem_, pass, descriptors_, context);
    } catch (const UnsupportedError&) {
      if (!narrow() || pass != Pass::kBackwardFilter || !widen(context)) throw;
    }
  }
  /// Whether there is an algorithm for backward_filter in float32, within the workspace's limit.
  bool widen(Context& context) {
    Conv2dProblem wide = problem_;
    wide.dtype = DType::kFloat32;
    wide.math = Math::kFP32;
    wide_descriptors_.emplace(wide);
    constexpr Pass kPass = Pass::kBackwardFilter;
    try {
      algorithms_[kPass] = choose_algorithm(wide, kPass, *wide_descriptors_, context);
    } catch (const UnsupportedError&) {
      return false;
    }
    return converted_bytes(kPass) + algorithms_.at(kPass).workspace <= context.workspace_limit();
  }

  bool narrow_bias() const override { return narrow(); }
  bool narrow_dw() const override { return narrow() && !wide_descriptors_; }
  bool widens(Pass pass) const { return pass == Pass::kBackwardFilter && wide_descriptors_; }
  size_t converted_bytes(Pass pass) const override {
    if (!widens(pass)) return Conv2dByCudnn::converted_bytes(pass);
    return wide_bytes(problem_.x_desc()) + wide_bytes(problem_.y_desc());
  }
  static size_t wide_bytes(const TensorDesc& desc) {
    return align_up(static_cast<size_t>(desc.elements()) * sizeof(float));
  }
  size_t own_workspace_bytes(Pass pass) const override { return algorithms_.at(pass).workspace; }

  std::string product_text(Pass pass) const override {
    std::string text = algorithms_.at(pass).to_string(pass);
    if (!narrow()) return text;
    text += pass != Pass::kBackwardFilter ? "; weights in bf16"
            : narrow_dw()                 ? "; dw in bf16"
                                          : "; in fp32, from x and dy widened";
    if (pass == Pass::kForward && problem_.bias && !algorithms_.at(pass).adds_bias) {
      text += "; y rounded before and after the bias";
    }
    return text;
  }
  std::vector<std::string> product_calls(Pass pass) const override {
    if (pass == Pass::kBackwardData) return {"cudnnConvolutionBackwardData"};
    if (pass == Pass::kBackwardFilter) return {"cudnnConvolutionBackwardFilter"};
    if (algorithms_.at(pass).adds_bias) return {"cudnnConvolutionBiasActivationForward"};
    if (!problem_.bias) return {"cudnnConvolutionForward"};
    return {"cudnnConvolutionForward", "cudnnAddTensor"};
  }

  void call(Pass pass, const Run& run, Conv2dMemory memory) const override {
    auto* const workspace = static_cast<char*>(run.workspace);
    memory.workspace = workspace + converted_bytes(pass);
    if (widens(pass)) {
      const TensorDesc x = problem_.x_desc();
      memory.x = widened(run, memory.x, x, workspace);
      memory.y = widened(run, memory.y, problem_.y_desc(), workspace + wide_bytes(x));
    }
    run_by_cudnn(pass, run.context.cudnn(), widens(pass) ? *wide_descriptors_ : descriptors_,
                 algorithms_.at(pass), memory);
  }
  /// An activation or gradient in float32.
  static void* widened(const Run& run, const void* from, const TensorDesc& desc, void* to) {
    queue_conversion(static_cast<const bfloat16*>(from), static_cast<float*>(to), desc.elements(),
                     run.stream());
    return to;
  }

  const Conv2dDescriptors descriptors_;
  std::optional<Conv2dDescriptors> wide_descriptors_;  // of backward_filter, where it is in float32
  std::map<Pass, CudnnAlgorithm> algorithms_;
};

std::optional<std::string> unsupported(const Conv2dProblem& problem, Pass) {
  const int64_t most = int64_t{1} << 31;
  if (problem.x_desc().elements() >= most || problem.y_desc().elements() >= most) {
    return "cuDNN's convolutions count elements in 32 bits; use a smaller batch";
  }
  return {};
}

}  // namespace

ImplEntry<Conv2dProblem> conv2d_cudnn() {
  return impl_entry<Conv2dCudnn>("cudnn", unsupported, gpu_dtypes());
}

}  // namespace duet
