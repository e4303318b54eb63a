// cuDNN's graph API: operations on tensors are said first, as a graph; cuDNN proposes engines that run
// all of it, with settings ("knobs"); one of them, made ready for the GPU, is an execution plan, which
// runs on memory given at each call. Everything is a cudnnBackendDescriptor_t: made, given attributes
// by name, finalized. Here are the descriptors and the graph; device/graph_plans.h has the engines and
// the plans. Include only in files that are compiled with CUDA.
#pragma once

#include <cudnn.h>

#include <optional>
#include <utility>
#include <vector>

#include "core/interrupt.h"
#include "core/tensor.h"
#include "device/check.h"
#include "device/cudnn_descriptors.h"

namespace duet::gpu {

/// Owns one descriptor of the graph API. Errors throw DeviceError.
class BackendDescriptor {
 public:
  explicit BackendDescriptor(cudnnBackendDescriptorType_t type) {
    DUET_CUDNN(cudnnBackendCreateDescriptor(type, &handle_));
  }
  ~BackendDescriptor() {
    if (handle_) (void)cudnnBackendDestroyDescriptor(handle_);
  }
  BackendDescriptor(BackendDescriptor&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)) {}
  BackendDescriptor& operator=(BackendDescriptor&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }

  cudnnBackendDescriptor_t get() const { return handle_; }

  /// T's type tells cuDNN's: bool, int64_t, float, a descriptor, or an enum of cuDNN's.
  template <class T>
  BackendDescriptor& set(cudnnBackendAttributeName_t name, const T& value) {
    return write(name, type_of(value), 1, &value);
  }
  template <class T>
  BackendDescriptor& set(cudnnBackendAttributeName_t name, const std::vector<T>& values) {
    return write(name, type_of(T{}), values.size(), values.data());
  }
  int64_t number(cudnnBackendAttributeName_t name) const;
  /// The cudnnBackendKnobType_t of a knob's choice.
  int64_t knob() const;
  /// The first `most` descriptors under `name`, which are of `type`.
  std::vector<BackendDescriptor> descriptors(cudnnBackendAttributeName_t name,
                                             cudnnBackendDescriptorType_t type, size_t most) const;
  /// The notes of an engine: each an enum of cuDNN's.
  template <class Note>
  std::vector<Note> notes(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                          size_t most) const {
    std::vector<Note> notes(most);
    notes.resize(read(name, type, most, notes.data()));
    return notes;
  }
  BackendDescriptor& set_memory(cudnnBackendAttributeName_t name, const std::vector<void*>& all) {
    return write(name, CUDNN_TYPE_VOID_PTR, all.size(), all.data());
  }
  BackendDescriptor& finalize() {
    const KeptSignalHandlers handlers;  // an execution plan may be compiled by NVRTC
    DUET_CUDNN(cudnnBackendFinalize(handle_));
    return *this;
  }

 private:
  static cudnnBackendAttributeType_t type_of(bool) { return CUDNN_TYPE_BOOLEAN; }
  static cudnnBackendAttributeType_t type_of(int64_t) { return CUDNN_TYPE_INT64; }
  static cudnnBackendAttributeType_t type_of(float) { return CUDNN_TYPE_FLOAT; }
  static cudnnBackendAttributeType_t type_of(cudnnBackendDescriptor_t) {
    return CUDNN_TYPE_BACKEND_DESCRIPTOR;
  }
  static cudnnBackendAttributeType_t type_of(cudnnHandle_t) { return CUDNN_TYPE_HANDLE; }
  static cudnnBackendAttributeType_t type_of(cudnnDataType_t) { return CUDNN_TYPE_DATA_TYPE; }
  static cudnnBackendAttributeType_t type_of(cudnnConvolutionMode_t) {
    return CUDNN_TYPE_CONVOLUTION_MODE;
  }
  static cudnnBackendAttributeType_t type_of(cudnnPointwiseMode_t) {
    return CUDNN_TYPE_POINTWISE_MODE;
  }
  static cudnnBackendAttributeType_t type_of(cudnnBackendNormMode_t) {
    return CUDNN_TYPE_NORM_MODE;
  }
  static cudnnBackendAttributeType_t type_of(cudnnBackendNormFwdPhase_t) {
    return CUDNN_TYPE_NORM_FWD_PHASE;
  }
  static cudnnBackendAttributeType_t type_of(cudnnNanPropagation_t) {
    return CUDNN_TYPE_NAN_PROPOGATION;
  }
  static cudnnBackendAttributeType_t type_of(cudnnBackendHeurMode_t) {
    return CUDNN_TYPE_HEUR_MODE;
  }
  static cudnnBackendAttributeType_t type_of(cudnnBackendKnobType_t) {
    return CUDNN_TYPE_KNOB_TYPE;
  }

  BackendDescriptor& write(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                           size_t count, const void* values) {
    DUET_CUDNN(cudnnBackendSetAttribute(handle_, name, type, static_cast<int64_t>(count), values));
    return *this;
  }
  /// How many of at most `most` there were.
  size_t read(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, size_t most,
              void* values) const;

  cudnnBackendDescriptor_t handle_ = nullptr;
};

/// Operations, each on tensors that were added before it. A tensor is named by a number.
class OperationGraph {
 public:
  using Tensor = int64_t;
  /// What a plan is given memory for.
  struct Memory {
    Tensor tensor = 0;
    TensorDesc desc;
    bool on_host = false;
  };

  /// Numbers begin with `first`: graphs that are run one after the other are easier to read apart.
  explicit OperationGraph(Tensor first = 1) : first_(first) {}
  OperationGraph(OperationGraph&&) = default;
  OperationGraph& operator=(OperationGraph&&) = default;

  /// A tensor whose memory is given at each run, 16-byte aligned. cuDNN sees four sizes: see
  /// cudnn_size().
  Tensor tensor(const TensorDesc& desc) { return add_tensor(desc, Place::kMemory); }
  /// One in float32 that passes from operation to operation without memory.
  Tensor intermediate(TensorDesc desc) {
    desc.dtype = DType::kFloat32;
    return add_tensor(desc, Place::kPassedOn);
  }
  /// A float that the host has: its memory is read when the plan is run.
  Tensor number() { return add_tensor({{1}, DType::kFloat32}, Place::kHost); }

  // Sums are in float32. What each computes is cudnnConvolutionForward's, cudnnConvolutionBackwardData's
  // and cudnnConvolutionBackwardFilter's; groups are x's channels by w's.
  void convolve(const ConvolutionSettings& how, Tensor x, Tensor w, Tensor y);
  void convolve_backward_data(const ConvolutionSettings& how, Tensor dy, Tensor w, Tensor dx);
  void convolve_backward_filter(const ConvolutionSettings& how, Tensor x, Tensor dy, Tensor dw);
  /// y = mode(x, b), sizes of 1 in b spread over x's; or mode(x).
  void combine(cudnnPointwiseMode_t mode, Tensor x, Tensor b, Tensor y);
  void apply(cudnnPointwiseMode_t mode, Tensor x, Tensor y);
  /// dx = dy where x > 0, else 0.
  void relu_backward(Tensor x, Tensor dy, Tensor dx);

  /// Batch normalisation in training: cudnnBatchNormalizationForwardTraining. The running statistics
  /// after it may have the memory of those before it.
  struct Normalization {
    Tensor x, weight, bias, epsilon, momentum, running_mean, running_var;
    Tensor y, mean, inverse_deviation, next_running_mean, next_running_var;
  };
  void normalize(const Normalization& t);
  /// cudnnBatchNormalizationBackward.
  struct NormalizationBackward {
    Tensor x, dy, weight, mean, inverse_deviation;
    Tensor dx, dweight, dbias;
  };
  void normalize_backward(const NormalizationBackward& t);

  /// All of it, finalized at the first call: from then on nothing can be added.
  cudnnBackendDescriptor_t get(cudnnHandle_t cudnn);
  /// How many engines cuDNN has for graphs; they are numbered from 0 on.
  int64_t engines(cudnnHandle_t cudnn);
  const std::vector<Memory>& memory() const { return memory_; }

 private:
  enum class Place { kMemory, kPassedOn, kHost };
  Tensor add_tensor(const TensorDesc& desc, Place place);
  cudnnBackendDescriptor_t at(Tensor tensor) const {
    return tensors_.at(static_cast<size_t>(tensor - first_)).get();
  }
  BackendDescriptor& pointwise(cudnnPointwiseMode_t mode);

  Tensor first_;
  std::vector<Memory> memory_;
  std::vector<BackendDescriptor> tensors_, settings_, operations_;
  std::optional<BackendDescriptor> whole_;
};

}  // namespace duet::gpu
