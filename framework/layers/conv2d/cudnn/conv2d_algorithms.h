// Which of cuDNN's algorithms a convolution runs by. Include only in files that are compiled with
// CUDA.
#pragma once

#include <string>
#include <vector>

#include "device/cudnn_descriptors.h"
#include "layers/conv2d/conv2d.h"

namespace duet {

/// The arithmetic to ask cuDNN for. CUDNN_DEFAULT_MATH lets float32 run in TF32.
inline cudnnMathType_t math_of(const Conv2dProblem& problem) {
  if (problem.dtype == DType::kBFloat16) return CUDNN_TENSOR_OP_MATH;
  return problem.math == Math::kFP32 ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH;
}

inline TensorDesc stored_in(DType dtype, TensorDesc desc) {
  desc.dtype = dtype;
  return desc;
}
/// Parameters as cuDNN takes them: stored as x is.
inline TensorDesc as_stored(const Conv2dProblem& problem, const TensorDesc& parameter) {
  return stored_in(problem.dtype, parameter);
}

inline gpu::ConvolutionSettings convolution_settings(const Conv2dProblem& problem) {
  return {.pad_h = problem.pad_h,
          .pad_w = problem.pad_w,
          .stride_h = problem.stride_h,
          .stride_w = problem.stride_w,
          .dilation_h = problem.dilation_h,
          .dilation_w = problem.dilation_w,
          .groups = problem.groups,
          .math = math_of(problem)};
}

/// Everything that cuDNN must be told about one convolution.
struct Conv2dDescriptors {
  explicit Conv2dDescriptors(const Conv2dProblem& problem);

  gpu::TensorDescriptor x, y, bias;
  gpu::FilterDescriptor w;
  gpu::ConvolutionDescriptor convolution;
  gpu::ActivationDescriptor identity;  // for the call that adds the bias itself
};

struct CudnnAlgorithm {
  /// An algorithm that is faster and was not taken.
  struct Rejected {
    int number = 0;
    double error = 0.0;    // relative, of outputs sampled; NaN if there was one among them
    bool repeats = false;  // two runs gave the same bits
  };

  int number = 0;  // a cudnnConvolution{Fwd,BwdData,BwdFilter}Algo_t
  size_t workspace = 0;
  bool adds_bias = false;     // forward: by cudnnConvolutionBiasActivationForward
  double microseconds = 0.0;  // of the search
  std::vector<Rejected> rejected;

  /// "ALGO_4 FFT, adds the bias; rejected ALGO_7 WINOGRAD_NONFUSED: error 4.0e-04"
  std::string to_string(Pass pass) const;
};

/// The memory of one call, all on the GPU. x, w or y is the gradient in the pass that computes it;
/// y is dy in both backward passes. b may be nullptr; `workspace` has the algorithm's bytes.
struct Conv2dMemory {
  void* x = nullptr;
  void* w = nullptr;
  void* b = nullptr;
  void* y = nullptr;
  void* workspace = nullptr;
};

/// Queues a pass by `algorithm`: forward with its bias, backward_filter without the bias's
/// gradient.
void run_by_cudnn(Pass pass, cudnnHandle_t cudnn, const Conv2dDescriptors& descriptors,
                  const CudnnAlgorithm& algorithm, const Conv2dMemory& memory);

/// The fastest algorithm for `pass` that is bitwise repeatable, computes in problem.math and needs
/// at most context.workspace_limit() bytes. It is searched for once: this process, and a file in
/// the user's cache folder, remember it. May allocate and synchronise. Throws UnsupportedError if
/// there is none.
CudnnAlgorithm choose_algorithm(const Conv2dProblem& problem, Pass pass,
                                const Conv2dDescriptors& descriptors, Context& context);

}  // namespace duet
