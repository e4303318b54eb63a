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
#include <algorithm>
#include <map>

#include "core/arena.h"
#include "core/error.h"
#include "kernels/convert.h"
#include "layers/conv2d/conv2d.h"
#include "layers/conv2d/conv2d_algorithms.h"
#include "layers/conv2d/conv2d_bias_gradient.h"
#include "layers/inference_forward.h"

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

class Conv2dCudnn : public Conv2dImpl, public InferenceForward {
 public:
  explicit Conv2dCudnn(const Conv2dProblem& problem) : Conv2dImpl(problem), descriptors_(problem) {
    if (problem.bias) bias_gradient_.emplace(problem);
  }

  void prepare(Pass pass, Context& context) override {
    try {
      algorithms_[pass] = choose_algorithm(problem_, pass, descriptors_, context);
    } catch (const UnsupportedError&) {
      if (!narrow() || pass != Pass::kBackwardFilter || !widen(context)) throw;
    }
    if (pass == Pass::kBackwardFilter && bias_gradient_) bias_gradient_->prepare(context);
  }
  size_t workspace_bytes(Pass pass) const override {
    const size_t bytes = converted_bytes(pass) + algorithms_.at(pass).workspace;
    if (pass != Pass::kBackwardFilter || !bias_gradient_) return bytes;
    return std::max(bytes, bias_gradient_->workspace_bytes());  // one after the other
  }
  std::string detail(Pass pass) const override {
    std::string text = algorithms_.at(pass).to_string(pass);
    if (narrow()) {
      text += pass != Pass::kBackwardFilter ? "; weights in bf16"
              : wide_descriptors_           ? "; in fp32, from x and dy widened"
                                            : "; dw in bf16";
    }
    if (narrow() && pass == Pass::kForward && problem_.bias &&
        !algorithms_.at(Pass::kForward).adds_bias) {
      text += "; y rounded before and after the bias";
    }
    if (pass != Pass::kBackwardFilter || !bias_gradient_) return text;
    return text + "; " + bias_gradient_->detail();
  }

  std::vector<std::string> calls(Pass pass) const override {
    if (pass == Pass::kBackwardData) return {"cudnnConvolutionBackwardData"};
    if (pass == Pass::kForward) {
      if (algorithms_.at(Pass::kForward).adds_bias)
        return {"cudnnConvolutionBiasActivationForward"};
      if (!problem_.bias) return {"cudnnConvolutionForward"};
      return {"cudnnConvolutionForward", "cudnnAddTensor"};
    }
    std::vector<std::string> calls = {"cudnnConvolutionBackwardFilter"};
    if (bias_gradient_) {
      const std::vector<std::string> bias = bias_gradient_->calls();
      calls.insert(calls.end(), bias.begin(), bias.end());
    }
    return calls;
  }

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) override {
    round_parameters(run, w, b, run.workspace);
    forward_by(run, x, w, b, run.workspace, y);
  }
  size_t prepared_bytes() const override { return converted_bytes(Pass::kForward); }
  void prepare_weights(const Run& run, const LayerTensors& t, void* prepared) override {
    round_parameters(run, t.w[0], bias_of(t), prepared);
  }
  void infer(const Run& run, const LayerTensors& t, const void* prepared) override {
    forward_by(run, t.x[0], t.w[0], bias_of(t), const_cast<void*>(prepared), t.y[0]);
  }

  void backward_data(const Run& run, const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    round_parameters(run, w, {}, run.workspace);
    call(Pass::kBackwardData, run,
         {dx.memory, narrow() ? run.workspace : w.memory, nullptr, dy.memory});
  }

  void backward_filter(const Run& run, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) override {
    const bool narrow_dw = narrow() && !wide_descriptors_;
    void* gradient = narrow_dw ? run.workspace : dw.memory;
    if (wide_descriptors_) {
      void *wide_x = widened(run, x, 0), *wide_dy = widened(run, dy, wide_bytes(x.desc));
      call(Pass::kBackwardFilter, run, {wide_x, gradient, nullptr, wide_dy});
    } else {
      call(Pass::kBackwardFilter, run, {x.memory, gradient, nullptr, dy.memory});
    }
    if (narrow_dw) {
      queue_conversion(static_cast<const bfloat16*>(gradient), dw.data<float>(), dw.elements(),
                       run.stream());
    }
    if (db) bias_gradient_->run(run.context, dy.memory, db.data<float>(), run.workspace);
  }

 private:
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
  bool narrow() const { return problem_.dtype == DType::kBFloat16; }
  size_t narrow_weight_bytes() const {
    return align_up(as_stored(problem_, problem_.w_desc()).bytes());
  }
  static size_t wide_bytes(const TensorDesc& desc) {
    return align_up(static_cast<size_t>(desc.elements()) * sizeof(float));
  }
  /// What converted tensors take at the beginning of the workspace.
  size_t converted_bytes(Pass pass) const {
    if (!narrow()) return 0;
    if (pass == Pass::kBackwardFilter && wide_descriptors_) {
      return wide_bytes(problem_.x_desc()) + wide_bytes(problem_.y_desc());
    }
    const bool bias = pass == Pass::kForward && problem_.bias;
    return narrow_weight_bytes() +
           (bias ? align_up(as_stored(problem_, problem_.b_desc()).bytes()) : 0);
  }
  Tensor bias_of(const LayerTensors& t) const { return problem_.bias ? t.w[1] : Tensor{}; }
  void* bias_in(void* memory) const { return static_cast<char*>(memory) + narrow_weight_bytes(); }
  /// The parameters in bfloat16, if they are taken so, the weights at the beginning of `memory`.
  void round_parameters(const Run& run, const Tensor& w, const Tensor& b, void* memory) const {
    if (!narrow()) return;
    const auto round = [&](const Tensor& parameter, void* to) {
      queue_conversion(parameter.data<float>(), static_cast<bfloat16*>(to), parameter.elements(),
                       run.stream());
    };
    round(w, memory);
    if (b) round(b, bias_in(memory));
  }
  void forward_by(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b, void* rounded,
                  const Tensor& y) const {
    void *weight = w.memory, *bias = b.memory;
    if (narrow()) {
      weight = rounded;
      if (b) bias = bias_in(rounded);
    }
    call(Pass::kForward, run, {x.memory, weight, bias, y.memory});
  }
  /// An activation or gradient in float32, at `offset` in the workspace.
  static void* widened(const Run& run, const Tensor& tensor, size_t offset) {
    auto* to = reinterpret_cast<float*>(static_cast<char*>(run.workspace) + offset);
    queue_conversion(tensor.data<bfloat16>(), to, tensor.elements(), run.stream());
    return to;
  }
  /// `memory` without its workspace.
  void call(Pass pass, const Run& run, Conv2dMemory memory) const {
    memory.workspace = static_cast<char*>(run.workspace) + converted_bytes(pass);
    const bool wide = pass == Pass::kBackwardFilter && wide_descriptors_;
    run_by_cudnn(pass, run.context.cudnn(), wide ? *wide_descriptors_ : descriptors_,
                 algorithms_.at(pass), memory);
  }

  const Conv2dDescriptors descriptors_;
  std::optional<Conv2dDescriptors> wide_descriptors_;  // of backward_filter, where it is in float32
  std::optional<Conv2dBiasGradient> bias_gradient_;
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
