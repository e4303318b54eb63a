// cuDNN's graph API: operations on tensors are said first, as a graph; cuDNN proposes engines that run
// all of it, with settings ("knobs"); one of them, made ready for the GPU, is an execution plan, which
// runs on memory given at each call. Everything is a cudnnBackendDescriptor_t: made, given attributes
// by name, finalized. Include only in files that are compiled with CUDA.
#pragma once

#include <cudnn.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "device/check.h"
#include "device/context.h"
#include "device/cudnn_descriptors.h"
#include "device/tuning_cache.h"

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

  OperationGraph() = default;
  OperationGraph(OperationGraph&&) = default;
  OperationGraph& operator=(OperationGraph&&) = default;

  /// A tensor whose memory is given at each run, 16-byte aligned. cuDNN sees four sizes: see
  /// cudnn_size().
  Tensor tensor(const TensorDesc& desc) { return add_tensor(desc, false); }
  /// One in float32 that passes from operation to operation without memory.
  Tensor intermediate(TensorDesc desc) {
    desc.dtype = DType::kFloat32;
    return add_tensor(desc, true);
  }

  // Sums are in float32. What each computes is cudnnConvolutionForward's, cudnnConvolutionBackwardData's
  // and cudnnConvolutionBackwardFilter's; groups are x's channels by w's.
  void convolve(const ConvolutionSettings& how, Tensor x, Tensor w, Tensor y);
  void convolve_backward_data(const ConvolutionSettings& how, Tensor dy, Tensor w, Tensor dx);
  void convolve_backward_filter(const ConvolutionSettings& how, Tensor x, Tensor dy, Tensor dw);
  /// y = mode(x, b), sizes of 1 in b spread over x's.
  void combine(cudnnPointwiseMode_t mode, Tensor x, Tensor b, Tensor y);

  /// All of it, finalized at the first call: from then on nothing can be added.
  cudnnBackendDescriptor_t get(cudnnHandle_t cudnn);
  /// How many engines cuDNN has for graphs; they are numbered from 0 on.
  int64_t engines(cudnnHandle_t cudnn);

 private:
  Tensor add_tensor(const TensorDesc& desc, bool passes_on);
  cudnnBackendDescriptor_t at(Tensor tensor) const {
    return tensors_.at(static_cast<size_t>(tensor - 1)).get();
  }

  std::vector<BackendDescriptor> tensors_, settings_, operations_;
  std::optional<BackendDescriptor> whole_;
};

/// An engine and the settings that it runs with.
struct EngineConfiguration {
  int64_t engine = 0;
  std::map<int64_t, int64_t> knobs;  // values by cudnnBackendKnobType_t

  bool operator==(const EngineConfiguration&) const = default;
  /// "engine 37, knobs 2=1 5=0"
  std::string to_string() const;

  /// For a TuningCache.
  TuningCache::Entry to_entry() const;
  /// Nothing if the entry is of another kind.
  static std::optional<EngineConfiguration> from_entry(const TuningCache::Entry& entry);
};

/// Which engines may run.
struct EngineLimits {
  bool tensor_cores = false;  // in float32 those round to TF32
  /// FFT and Winograd's, which round in between. Where operands are stored in fewer bits than the
  /// sums have, results of them are not those of the sums.
  bool transforms = false;
};

/// What cuDNN has for `graph`: what its heuristics propose, best first, then every engine as it is by
/// default; those whose notes say that results repeat, that sums are not in reduced precision and,
/// unless `limits` allow it, that tensor cores are not used. An engine may still refuse the graph.
/// REQUIRES: a GPU context.
std::vector<EngineConfiguration> proposed_engines(Context& context, OperationGraph& graph,
                                                  const EngineLimits& limits);

/// One configuration made ready to run. Its graph must outlive it.
class ExecutionPlan {
 public:
  /// May compile kernels. Throws DeviceError if the engine cannot run the graph so.
  ExecutionPlan(Context& context, OperationGraph& graph, const EngineConfiguration& configuration);

  const EngineConfiguration& configuration() const { return configuration_; }
  size_t workspace_bytes() const { return workspace_; }
  /// Queues the plan on context.stream(). `memory` is of each tensor that is no intermediate.
  void run(Context& context, const std::vector<std::pair<OperationGraph::Tensor, void*>>& memory,
           void* workspace) const;

 private:
  EngineConfiguration configuration_;
  BackendDescriptor plan_;
  size_t workspace_ = 0;
};

}  // namespace duet::gpu
