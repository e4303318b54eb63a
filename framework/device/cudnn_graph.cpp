#include "device/cudnn_graph.h"

#include <algorithm>

namespace duet::gpu {
namespace {

/// How far apart neighbours along each of four sizes lie, in the order N C H W.
std::vector<int64_t> strides_of(const std::vector<int64_t>& sizes, Layout layout) {
  const int64_t c = sizes[1], h = sizes[2], w = sizes[3];
  if (layout == Layout::kNHWC) return {c * h * w, 1, c * w, c};
  return {c * h * w, h * w, w, 1};
}

BackendDescriptor convolution_of(const ConvolutionSettings& how) {
  const std::vector<int64_t> padding = {how.pad_h, how.pad_w};
  BackendDescriptor descriptor(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  descriptor.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
      .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{2})
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, padding)
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, padding)
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, std::vector<int64_t>{how.stride_h, how.stride_w})
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, std::vector<int64_t>{how.dilation_h, how.dilation_w})
      .finalize();
  return descriptor;
}

}  // namespace

size_t BackendDescriptor::read(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                               size_t most, void* values) const {
  int64_t count = 0;
  DUET_CUDNN(
      cudnnBackendGetAttribute(handle_, name, type, static_cast<int64_t>(most), &count, values));
  return std::min(static_cast<size_t>(count), most);
}

int64_t BackendDescriptor::number(cudnnBackendAttributeName_t name) const {
  int64_t value = 0;
  read(name, CUDNN_TYPE_INT64, 1, &value);
  return value;
}

int64_t BackendDescriptor::knob() const {
  cudnnBackendKnobType_t type = CUDNN_KNOB_TYPE_COUNTS;
  read(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type);
  return type;
}

std::vector<BackendDescriptor> BackendDescriptor::descriptors(cudnnBackendAttributeName_t name,
                                                              cudnnBackendDescriptorType_t type,
                                                              size_t most) const {
  std::vector<BackendDescriptor> all;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (size_t i = 0; i < most; ++i) raw.push_back(all.emplace_back(type).get());
  const size_t count = read(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, most, raw.data());
  while (all.size() > count) all.pop_back();
  return all;
}

OperationGraph::Tensor OperationGraph::add_tensor(const TensorDesc& desc, Place place) {
  std::vector<int64_t> sizes;
  for (int i = 0; i < 4; ++i) sizes.push_back(cudnn_size(desc.shape, i));
  const Tensor id = first_ + static_cast<Tensor>(tensors_.size());
  BackendDescriptor& tensor = tensors_.emplace_back(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, cudnn_type(desc.dtype))
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, sizes)
      .set(CUDNN_ATTR_TENSOR_STRIDES, strides_of(sizes, desc.layout))
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, int64_t{16})
      .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, place == Place::kPassedOn);
  if (place == Place::kHost) tensor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, true);
  tensor.finalize();
  if (place != Place::kPassedOn) memory_.push_back({id, desc, place == Place::kHost});
  return id;
}

void OperationGraph::convolve(const ConvolutionSettings& how, Tensor x, Tensor w, Tensor y) {
  settings_.push_back(convolution_of(how));
  operations_.emplace_back(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, settings_.back().get())
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, at(x))
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, at(w))
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, at(y))
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 1.0f)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0.0f)
      .finalize();
}

void OperationGraph::convolve_backward_data(const ConvolutionSettings& how, Tensor dy, Tensor w,
                                            Tensor dx) {
  settings_.push_back(convolution_of(how));
  operations_.emplace_back(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, settings_.back().get())
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, at(dy))
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, at(w))
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, at(dx))
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 1.0f)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, 0.0f)
      .finalize();
}

void OperationGraph::convolve_backward_filter(const ConvolutionSettings& how, Tensor x, Tensor dy,
                                              Tensor dw) {
  settings_.push_back(convolution_of(how));
  operations_.emplace_back(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, settings_.back().get())
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, at(x))
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, at(dy))
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, at(dw))
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, 1.0f)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, 0.0f)
      .finalize();
}

BackendDescriptor& OperationGraph::pointwise(cudnnPointwiseMode_t mode) {
  BackendDescriptor& how = settings_.emplace_back(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  how.set(CUDNN_ATTR_POINTWISE_MODE, mode).set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
  if (mode == CUDNN_POINTWISE_RELU_FWD) {
    how.set(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_PROPAGATE_NAN);
  }
  how.finalize();
  return operations_.emplace_back(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how.get());
}

void OperationGraph::combine(cudnnPointwiseMode_t mode, Tensor x, Tensor b, Tensor y) {
  pointwise(mode)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, at(x))
      .set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, at(b))
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, at(y))
      .finalize();
}

void OperationGraph::apply(cudnnPointwiseMode_t mode, Tensor x, Tensor y) {
  pointwise(mode)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, at(x))
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, at(y))
      .finalize();
}

void OperationGraph::relu_backward(Tensor x, Tensor dy, Tensor dx) {
  pointwise(CUDNN_POINTWISE_RELU_BWD)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, at(x))
      .set(CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, at(dy))
      .set(CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, at(dx))
      .finalize();
}

void OperationGraph::normalize(const Normalization& t) {
  operations_.emplace_back(CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_BATCH_NORM)
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_NORM_FWD_TRAINING)
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, at(t.x))
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, at(t.weight))
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, at(t.bias))
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, at(t.epsilon))
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC, at(t.momentum))
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC, at(t.running_mean))
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC, at(t.running_var))
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, at(t.y))
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, at(t.mean))
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, at(t.inverse_deviation))
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC, at(t.next_running_mean))
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC, at(t.next_running_var))
      .finalize();
}

void OperationGraph::normalize_backward(const NormalizationBackward& t) {
  operations_.emplace_back(CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_BATCH_NORM)
      .set(CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, at(t.x))
      .set(CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, at(t.dy))
      .set(CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, at(t.weight))
      .set(CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, at(t.mean))
      .set(CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, at(t.inverse_deviation))
      .set(CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, at(t.dx))
      .set(CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, at(t.dweight))
      .set(CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, at(t.dbias))
      .finalize();
}

cudnnBackendDescriptor_t OperationGraph::get(cudnnHandle_t cudnn) {
  if (!whole_) {
    std::vector<cudnnBackendDescriptor_t> operations;
    for (const BackendDescriptor& operation : operations_) operations.push_back(operation.get());
    BackendDescriptor whole(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    whole.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations)
        .set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, cudnn)
        .finalize();
    whole_ = std::move(whole);
  }
  return whole_->get();
}

int64_t OperationGraph::engines(cudnnHandle_t cudnn) {
  get(cudnn);
  return whole_->number(CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT);
}

}  // namespace duet::gpu
