// cuDNN's descriptors as move-only types. A descriptor is a small host object that tells cuDNN the
// sizes, types and strides of memory that is passed beside it in every call; it owns no tensor
// memory, is filled once and may be used by any number of calls. Include only in files that are
// compiled with CUDA.
#pragma once

#include <cudnn.h>

#include <array>
#include <stdexcept>
#include <utility>

#include "core/tensor.h"
#include "device/check.h"

namespace duet::gpu {

inline cudnnDataType_t cudnn_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return CUDNN_DATA_FLOAT;
    case DType::kFloat64:
      return CUDNN_DATA_DOUBLE;
    case DType::kFloat16:
      return CUDNN_DATA_HALF;
    case DType::kBFloat16:
      return CUDNN_DATA_BFLOAT16;
    case DType::kUInt8:
      return CUDNN_DATA_UINT8;
    case DType::kInt32:
      return CUDNN_DATA_INT32;
  }
  throw std::logic_error("no such dtype");
}

inline cudnnTensorFormat_t cudnn_format(Layout layout) {
  return layout == Layout::kNCHW ? CUDNN_TENSOR_NCHW : CUDNN_TENSOR_NHWC;
}

/// Size i of a tensor that cuDNN sees with four: a missing one is 1, at the end (N x F is N x F x 1
/// x 1).
inline int cudnn_size(const Shape& shape, int i) {
  return i < shape.rank() ? static_cast<int>(shape[i]) : 1;
}

/// Owns one descriptor of type `Handle`; falsy after it was moved from.
template <class Handle, cudnnStatus_t (*create)(Handle*), cudnnStatus_t (*destroy)(Handle)>
class Descriptor {
 public:
  Descriptor() { DUET_CUDNN(create(&handle_)); }
  ~Descriptor() {
    if (handle_) (void)destroy(handle_);
  }
  Descriptor(Descriptor&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }

  explicit operator bool() const { return handle_ != nullptr; }
  Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
};

/// A tensor of rank 1 to 4. cuDNN always names sizes in the order N C H W; the layout says how they
/// lie in memory.
class TensorDescriptor : public Descriptor<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor,
                                           cudnnDestroyTensorDescriptor> {
 public:
  explicit TensorDescriptor(const TensorDesc& desc) {
    const Shape& s = desc.shape;
    DUET_CUDNN(cudnnSetTensor4dDescriptor(get(), cudnn_format(desc.layout), cudnn_type(desc.dtype),
                                          cudnn_size(s, 0), cudnn_size(s, 1), cudnn_size(s, 2),
                                          cudnn_size(s, 3)));
  }
};

/// Four sizes and, for each, the elements from one index to the next: a part of a tensor, or its
/// values in another order.
class StridedDescriptor : public Descriptor<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor,
                                            cudnnDestroyTensorDescriptor> {
 public:
  using Four = std::array<int64_t, 4>;

  StridedDescriptor(DType dtype, const Four& sizes, const Four& strides) {
    const auto number = [](int64_t value) { return static_cast<int>(value); };
    DUET_CUDNN(cudnnSetTensor4dDescriptorEx(get(), cudnn_type(dtype), number(sizes[0]),
                                            number(sizes[1]), number(sizes[2]), number(sizes[3]),
                                            number(strides[0]), number(strides[1]),
                                            number(strides[2]), number(strides[3])));
  }
};

/// `rows` rows of `width` values, each `pitch` elements behind the one before.
class RowsDescriptor : public StridedDescriptor {
 public:
  RowsDescriptor(DType dtype, int64_t rows, int64_t width, int64_t pitch)
      : StridedDescriptor(dtype, {rows, width, 1, 1}, {pitch, 1, 1, 1}) {}
};

/// A value for each channel of images in `layout` (a bias, batch statistics): 1 x channels x 1 x 1,
/// which cuDNN spreads over N, H and W.
inline TensorDescriptor per_channel_descriptor(int64_t channels, DType dtype, Layout layout) {
  return TensorDescriptor({{1, channels, 1, 1}, dtype, layout});
}

/// Weights K x C/groups x R x S: KCRS in memory for kNCHW, KRSC for kNHWC. Same sizes as a
/// tensor's, but another type to cuDNN (with data type and format swapped in the call).
class FilterDescriptor : public Descriptor<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor,
                                           cudnnDestroyFilterDescriptor> {
 public:
  explicit FilterDescriptor(const TensorDesc& desc) {
    const Shape& s = desc.shape;
    DUET_CUDNN(cudnnSetFilter4dDescriptor(get(), cudnn_type(desc.dtype), cudnn_format(desc.layout),
                                          cudnn_size(s, 0), cudnn_size(s, 1), cudnn_size(s, 2),
                                          cudnn_size(s, 3)));
  }
};

struct ConvolutionSettings {
  int pad_h = 0, pad_w = 0;
  int stride_h = 1, stride_w = 1;
  int dilation_h = 1, dilation_w = 1;
  int groups = 1;
  cudnnMathType_t math = CUDNN_FMA_MATH;
};

/// How a filter moves, how many groups there are and which arithmetic is allowed. Sums are in
/// float32.
class ConvolutionDescriptor
    : public Descriptor<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor,
                        cudnnDestroyConvolutionDescriptor> {
 public:
  explicit ConvolutionDescriptor(const ConvolutionSettings& s) {
    // "Convolution" of neural networks is cuDNN's CROSS_CORRELATION: the filter is not flipped.
    DUET_CUDNN(cudnnSetConvolution2dDescriptor(get(), s.pad_h, s.pad_w, s.stride_h, s.stride_w,
                                               s.dilation_h, s.dilation_w, CUDNN_CROSS_CORRELATION,
                                               CUDNN_DATA_FLOAT));
    DUET_CUDNN(cudnnSetConvolutionGroupCount(get(), s.groups));
    set_math(s.math);
  }
  void set_math(cudnnMathType_t math) { DUET_CUDNN(cudnnSetConvolutionMathType(get(), math)); }
};

struct PoolingSettings {
  cudnnPoolingMode_t mode = CUDNN_POOLING_MAX_DETERMINISTIC;
  int window_h = 1, window_w = 1;
  int pad_h = 0, pad_w = 0;
  int stride_h = 1, stride_w = 1;
};

/// NaN propagates, as in PyTorch.
class PoolingDescriptor : public Descriptor<cudnnPoolingDescriptor_t, cudnnCreatePoolingDescriptor,
                                            cudnnDestroyPoolingDescriptor> {
 public:
  explicit PoolingDescriptor(const PoolingSettings& s) {
    DUET_CUDNN(cudnnSetPooling2dDescriptor(get(), s.mode, CUDNN_PROPAGATE_NAN, s.window_h,
                                           s.window_w, s.pad_h, s.pad_w, s.stride_h, s.stride_w));
  }
};

/// `coefficient` is the ceiling of clipped relu or elu's alpha. NaN propagates, as in PyTorch.
/// CUDNN_ACTIVATION_IDENTITY exists for cudnnConvolutionBiasActivationForward alone, which wants
/// the other setting; the identity passes a NaN anyway.
class ActivationDescriptor
    : public Descriptor<cudnnActivationDescriptor_t, cudnnCreateActivationDescriptor,
                        cudnnDestroyActivationDescriptor> {
 public:
  explicit ActivationDescriptor(cudnnActivationMode_t mode, double coefficient = 0.0) {
    const auto nan =
        mode == CUDNN_ACTIVATION_IDENTITY ? CUDNN_NOT_PROPAGATE_NAN : CUDNN_PROPAGATE_NAN;
    DUET_CUDNN(cudnnSetActivationDescriptor(get(), mode, nan, coefficient));
  }
};

/// An operation on two tensors, in float32. NaN propagates.
class OpTensorDescriptor
    : public Descriptor<cudnnOpTensorDescriptor_t, cudnnCreateOpTensorDescriptor,
                        cudnnDestroyOpTensorDescriptor> {
 public:
  explicit OpTensorDescriptor(cudnnOpTensorOp_t operation) {
    DUET_CUDNN(cudnnSetOpTensorDescriptor(get(), operation, CUDNN_DATA_FLOAT, CUDNN_PROPAGATE_NAN));
  }
};

}  // namespace duet::gpu
