// Which of cuDNN's algorithms a convolution runs by. Include only in files that are compiled with
// CUDA.
#pragma once

#include <string>

#include "device/cudnn_descriptors.h"
#include "layers/conv2d/conv2d.h"

namespace duet {

/// The arithmetic to ask cuDNN for. Plain CUDNN_DEFAULT_MATH would let float32 run in TF32.
inline cudnnMathType_t math_of(const Conv2dProblem& problem) {
  return problem.math == Math::kFP32 ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION;
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
  int number = 0;  // a cudnnConvolution{Fwd,BwdData,BwdFilter}Algo_t
  cudnnMathType_t math = CUDNN_FMA_MATH;
  size_t workspace = 0;
  bool adds_bias = false;     // forward: by cudnnConvolutionBiasActivationForward
  double microseconds = 0.0;  // of the search

  /// "ALGO_1 IMPLICIT_PRECOMP_GEMM, 12.3 MiB, FMA"
  std::string to_string(Pass pass) const;
};

/// Queues y = x * w + b by `algorithm`; b may be nullptr. `workspace` has algorithm.workspace
/// bytes.
void run_forward(cudnnHandle_t cudnn, Conv2dDescriptors& descriptors,
                 const CudnnAlgorithm& algorithm, const void* x, const void* w, const void* b,
                 void* y, void* workspace);

/// The fastest algorithm for `pass` that is bitwise repeatable, computes in problem.math and needs
/// at most context.workspace_limit() bytes. It is searched for once: this process, and a file in
/// the user's cache folder, remember it. May allocate and synchronise. Throws UnsupportedError if
/// there is none.
CudnnAlgorithm choose_algorithm(const Conv2dProblem& problem, Pass pass,
                                Conv2dDescriptors& descriptors, Context& context);

}  // namespace duet
