// The part of ProgramCalls that is said of the calls.
#include "program_calls.h"

namespace duet {
namespace {

/// What a lesson would say where a function comes up first.
std::string lesson_on(const std::string& function) {
  static const std::map<std::string, std::string> texts = {
      {"cudnnCreate", "The handle: the library's state on this GPU. Its kernels go to the stream."},
      {"cublasCreate",
       "The handle: the library's state on this GPU. Its kernels go to the stream; with a "
       "workspace "
       "of ours it allocates nothing by itself."},
      {"cudnnSetTensor4dDescriptor",
       "A descriptor says what memory means: its layout, type, and sizes, always in the order N C "
       "H "
       "W. It owns no memory, and one serves all tensors that are alike."},
      {"cudnnSetTensor4dDescriptorEx",
       "A descriptor with strides of its own: how many elements lie from one n, c, h, w to the "
       "next."},
      {"cudnnSetFilter4dDescriptor",
       "Weights have a type of descriptor of their own, K x C/groups x R x S; data type and format "
       "stand in another order in the call."},
      {"cudnnSetConvolution2dDescriptor",
       "How the filter moves: padding, stride, dilation; then the mode (networks mean "
       "CROSS_CORRELATION, in which the filter is not flipped) and the type of the sums."},
      {"cudnnSetConvolutionMathType",
       "The arithmetic. CUDNN_DEFAULT_MATH would let float32 be multiplied in TF32."},
      {"cudnnSetPooling2dDescriptor",
       "The window: mode, what becomes of a NaN, size, padding, stride; heights before widths."},
      {"cudnnSetActivationDescriptor",
       "The function, what becomes of a NaN, and a number that only some functions have."},
      {"cudnnSetOpTensorDescriptor", "An operation on two tensors, and the type it is done in."},
      {"cublasLtMatmulDescCreate",
       "cuBLASLt's descriptor of a product: the type of its sums, and of alpha and beta. cuBLAS is "
       "column-major: a row-major matrix is its own transpose to it."},
      {"cublasLtMatrixLayoutCreate",
       "The matrices, column-major: type, rows, columns, and the distance of two columns."},
      {"cufftMakePlanMany",
       "A plan of many transforms: sizes; then of the input and of the output the sizes in memory, "
       "the distance of neighbours, and the distance of transforms."},
      {"CUDNN_BACKEND_TENSOR_DESCRIPTOR",
       "The graph API has one kind of descriptor for everything: made, given attributes by name, "
       "finalized. A tensor has a number, which memory is given for at each run, a type, sizes in "
       "the order N C H W, and strides: how many elements lie from one n, c, h, w to the next. One "
       "that is virtual has no memory: it passes from operation to operation."},
      {"CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR",
       "How the filter moves, and the type of the sums. Networks mean CROSS_CORRELATION, in which "
       "the filter is not flipped; groups are x's channels by w's."},
      {"CUDNN_BACKEND_POINTWISE_DESCRIPTOR",
       "An operation on each element, and the type it is done in. Sizes of 1 are spread."},
      {"CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR",
       "Batch normalisation in training. It writes y, the running statistics, and for backward the "
       "batch's mean and 1 / sqrt(var + eps). The numbers are tensors of one value that lie on the "
       "host (IS_BY_VALUE)."},
      {"CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR",
       "dx, and the gradients of weight (scale) and bias."},
      {"CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR",
       "All operations together: what cuDNN looks for an engine for."},
      {"CUDNN_BACKEND_ENGINE_DESCRIPTOR",
       "The engine and its knobs. Duet has timed what the heuristics propose, and keeps the "
       "fastest whose results are exact enough and repeat."},
      {"CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR",
       "The plan: that engine made ready for this graph. Kernels may be compiled here."},
      {"CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR",
       "Which memory each tensor's number stands for, this time."},
      {"cudnnAddTensor", "y = 1 * b + 1 * y, with b's sizes of 1 spread over y's."},
      {"cudnnConvolutionBiasActivationForward",
       "y = identity(1 * conv(x, w) + 0 * z + b): the bias costs no kernel of its own. z may be y; "
       "times 0 it is not read."},
      {"cudnnConvolutionForward", "y = 1 * conv(x, w) + 0 * y. With beta 0, y is not read."},
      {"cudnnConvolutionBackwardData", "dx = 1 * (dy by w) + 0 * dx. With beta 0, dx is not read."},
      {"cudnnConvolutionBackwardFilter",
       "dw = 1 * (dy by x) + 0 * dw. With beta 1 it would be added to what dw holds."},
      {"cudnnConvolutionBackwardBias", "db = 1 * (the sum of dy) + 0 * db."},
      {"cudnnPoolingBackward", "y and x again: cuDNN keeps nothing between the passes."},
      {"cudnnActivationBackward", "Both y and x are wanted, though a function needs only one."},
      {"cudnnOpTensor", "C = op(alpha1 * A, alpha2 * B) + beta * C."},
      {"cudnnTransformTensor", "y = 1 * x + 0 * y, between descriptors that differ in strides."},
      {"cublasGemmEx",
       "C = alpha * op(A) op(B) + beta * C, column-major. The transposed equation is handed over, "
       "and nothing is moved."},
      {"cublasGemmStridedBatchedEx",
       "As many products as the batch has, their matrices a fixed distance apart."},
      {"cublasSgemv", "A matrix times a vector of ones: the sums of its rows, or of its columns."},
      {"cublasLtMatmul",
       "D = alpha * op(A) op(B) + beta * C, with the epilogue of the descriptor."},
      {"cublasSetMathMode", "What cuBLAS may do to float32 from here on."},
      {"cudnnBatchNormalizationForwardTraining",
       "y, the running statistics, and for backward the batch's mean and 1 / sqrt(var + eps)."},
      {"cudnnBatchNormalizationBackward",
       "dx, and the gradients of weight and bias: they have factors alpha and beta of their own."}};
  const auto found = texts.find(function);
  return found == texts.end() ? "" : found->second;
}

}  // namespace

std::string ProgramCalls::comment(const std::string& function) {
  const std::string text = lesson_on(function);
  if (text.empty() || !commented_.insert(function).second) return "";
  return "\n" + commented(text);
}

}  // namespace duet
