// conv2d cudnn: cuDNN's convolution, and how one talks to cuDNN.
//
// Every call to cuDNN takes the same four kinds of things:
//
//   a handle        the library's state on one GPU; it queues its kernels on the handle's stream.
//                   The Context owns it, and so all cuDNN work of a network is in order.
//   descriptors     what the memory means: sizes, data type, layout; how the filter moves. Made
//   once,
//                   before the first step (Conv2dDescriptors, below).
//   pointers        the memory itself, in each call, so that one descriptor serves many buffers.
//   alpha and beta  y = alpha * result + beta * y. We overwrite: alpha 1, beta 0 (with beta 0 the
//   old
//                   content is not read, so it may be anything, NaN included).
//
// A convolution needs two more: an *algorithm* (the same sums can be had as a matrix product, by
// Winograd's transform, by FFT ...) and the *workspace* that this algorithm needs. Which is fastest
// depends on sizes and GPU and cannot be known, only measured: conv2d_algorithms_cudnn.cpp
// searches. And the arithmetic must be said: CUDNN_DEFAULT_MATH runs float32 convolutions in TF32
// on GPUs that have it, so fp32 asks for CUDNN_FMA_MATH.
#include "layers/conv2d/conv2d_algorithms.h"
#include "layers/conv2d/conv2d_impls.h"

namespace duet {

Conv2dDescriptors::Conv2dDescriptors(const Conv2dProblem& problem)
    : x(problem.x_desc()),
      y(problem.y_desc()),
      bias(gpu::per_channel_descriptor(problem.k, problem.dtype, problem.layout)),
      w(problem.w_desc()),
      convolution({.pad_h = problem.pad_h,
                   .pad_w = problem.pad_w,
                   .stride_h = problem.stride_h,
                   .stride_w = problem.stride_w,
                   .dilation_h = problem.dilation_h,
                   .dilation_w = problem.dilation_w,
                   .groups = problem.groups,
                   .math = math_of(problem)}),
      identity(CUDNN_ACTIVATION_IDENTITY) {}

namespace {

// Scaling factors are read on the host, as float for float32 tensors.
constexpr float kOne = 1.0f, kZero = 0.0f;

class Conv2dCudnn : public Conv2dImpl {
 public:
  explicit Conv2dCudnn(const Conv2dProblem& problem) : Conv2dImpl(problem), descriptors_(problem) {}

  void prepare(Pass pass, Context& context) override {
    algorithm(pass) = choose_algorithm(problem_, pass, descriptors_, context);
  }
  size_t workspace_bytes(Pass pass) const override { return algorithm(pass).workspace; }
  std::string detail(Pass pass) const override { return algorithm(pass).to_string(pass); }

  void forward(Context& context, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) override {
    run_forward(context.cudnn(), descriptors_, forward_, x.memory, w.memory, b.memory, y.memory,
                context.workspace());
  }

  void backward_data(Context& context, const Tensor& dy, const Tensor& w,
                     const Tensor& dx) override {
    descriptors_.convolution.set_math(backward_data_.math);
    DUET_CUDNN(cudnnConvolutionBackwardData(
        context.cudnn(), &kOne, descriptors_.w.get(), w.memory, descriptors_.y.get(), dy.memory,
        descriptors_.convolution.get(),
        static_cast<cudnnConvolutionBwdDataAlgo_t>(backward_data_.number), context.workspace(),
        backward_data_.workspace, &kZero, descriptors_.x.get(), dx.memory));
  }

  void backward_filter(Context& context, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) override {
    descriptors_.convolution.set_math(backward_filter_.math);
    DUET_CUDNN(cudnnConvolutionBackwardFilter(
        context.cudnn(), &kOne, descriptors_.x.get(), x.memory, descriptors_.y.get(), dy.memory,
        descriptors_.convolution.get(),
        static_cast<cudnnConvolutionBwdFilterAlgo_t>(backward_filter_.number), context.workspace(),
        backward_filter_.workspace, &kZero, descriptors_.w.get(), dw.memory));
    if (!db) return;
    DUET_CUDNN(cudnnConvolutionBackwardBias(context.cudnn(), &kOne, descriptors_.y.get(), dy.memory,
                                            &kZero, descriptors_.bias.get(), db.memory));
  }

 private:
  const CudnnAlgorithm& algorithm(Pass pass) const {
    return pass == Pass::kForward        ? forward_
           : pass == Pass::kBackwardData ? backward_data_
                                         : backward_filter_;
  }
  CudnnAlgorithm& algorithm(Pass pass) {
    return const_cast<CudnnAlgorithm&>(std::as_const(*this).algorithm(pass));
  }

  Conv2dDescriptors descriptors_;
  CudnnAlgorithm forward_, backward_data_, backward_filter_;
};

std::optional<std::string> unsupported(const Conv2dProblem& problem, Pass) {
  const int64_t most = int64_t{1} << 31;
  if (problem.x_desc().elements() >= most || problem.y_desc().elements() >= most) {
    return "cuDNN's convolutions count elements in 32 bits; use a smaller batch";
  }
  return {};
}

}  // namespace

void run_forward(cudnnHandle_t cudnn, Conv2dDescriptors& descriptors,
                 const CudnnAlgorithm& algorithm, const void* x, const void* w, const void* b,
                 void* y, void* workspace) {
  const auto number = static_cast<cudnnConvolutionFwdAlgo_t>(algorithm.number);
  descriptors.convolution.set_math(algorithm.math);
  if (b && algorithm.adds_bias) {
    // y = identity(1 * conv(x, w) + 0 * z + b): one kernel less. z may be y, and with 0 is not
    // read.
    DUET_CUDNN(cudnnConvolutionBiasActivationForward(
        cudnn, &kOne, descriptors.x.get(), x, descriptors.w.get(), w, descriptors.convolution.get(),
        number, workspace, algorithm.workspace, &kZero, descriptors.y.get(), y,
        descriptors.bias.get(), b, descriptors.identity.get(), descriptors.y.get(), y));
    return;
  }
  DUET_CUDNN(cudnnConvolutionForward(cudnn, &kOne, descriptors.x.get(), x, descriptors.w.get(), w,
                                     descriptors.convolution.get(), number, workspace,
                                     algorithm.workspace, &kZero, descriptors.y.get(), y));
  if (b) {  // y = 1 * b + 1 * y, with b's sizes of 1 spread over y's
    DUET_CUDNN(
        cudnnAddTensor(cudnn, &kOne, descriptors.bias.get(), b, &kOne, descriptors.y.get(), y));
  }
}

ImplEntry<Conv2dProblem> conv2d_cudnn() {
  return {"cudnn", unsupported, make_implementation<Conv2dCudnn>};
}

}  // namespace duet
