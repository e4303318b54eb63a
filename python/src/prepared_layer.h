// One layer, bound to its inputs, with an implementation for each pass: what a call from Python runs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "layers/bound_op.h"

namespace duet::python {

struct LayerRequest {
  std::string type;  // "conv2d"
  std::string keys;  // the layer's own, as JSON or YAML: {"out_channels": 8, "kernel": 3}
  std::vector<TensorDesc> inputs;  // of a loss: the labels last
  std::string backend;             // a family or an id, or {"forward": "custom_naive", ...}
  Math math = Math::kFP32;
  Device device = Device::kCpu;  // of the tensors
  uint64_t seed = 0;             // of random masks
  uint32_t stream = 0;
  bool gradient = true;  // false: forward alone is ever run
};

/// Addresses of a call's tensors, on the layer's device. 0 where there is none: a gradient that is not
/// wanted, or a state of no bytes.
struct LayerAddresses {
  using List = std::vector<uintptr_t>;
  List x, y, dx, dy, w, dw;
  uintptr_t state = 0;
  uintptr_t workspace = 0;  // on a GPU workspace_bytes(); the CPU has its own
};

/// Where and as what a call runs.
struct CallOptions {
  uintptr_t stream = 0;  // a cudaStream_t; 0 is CUDA's default stream, as everywhere in Python
  uintptr_t step = 0;    // where the number of the step stands (uint64, on the device); 0: number 0
  bool training = true;
};

/// Waits for the GPU's calls of stream 0.
void synchronize_default_stream();

class PreparedLayer {
 public:
  /// Chooses, makes and prepares the implementations. Throws ConfigError for what no layer takes, and
  /// UnsupportedError where the implementation asked for cannot do it, with those that can.
  explicit PreparedLayer(const LayerRequest& request);

  const Layer& layer() const { return *layer_; }
  Device device() const { return context_->device(); }
  /// The passes that can be run; of `gradient` all of the layer.
  std::vector<Pass> passes() const;
  /// REQUIRES: of passes().
  const std::string& id(Pass pass) const { return step(pass).op->id(); }
  std::string detail(Pass pass) const { return step(pass).op->detail(pass); }
  /// Of a GPU: the caller's memory. Of the CPU 0: there each thread has one of its own.
  size_t workspace_bytes(Pass pass) const;
  /// Kept by the caller from forward to the backward passes.
  size_t state_bytes() const { return state_bytes_; }
  /// Whether a backward pass may read y.
  bool reads_output() const { return reads_output_; }

  /// Computes (CPU) or queues on the stream (GPU) one pass. Threads may call it at the same time; they
  /// run one after the other, but work on two streams of a GPU does not: an implementation may keep
  /// counters in its memory, so two streams must not run one layer at the same time. Throws ConfigError for
  /// memory that is not aligned. REQUIRES: the lists are as long as the layer's, and every address is of
  /// memory as large as its desc; state and workspace likewise.
  void run(Pass pass, const LayerAddresses& addresses, const CallOptions& options);

 private:
  struct Step {
    BoundOp* op;  // owned by ops_
    size_t workspace_bytes;
  };
  const Step& step(Pass pass) const;
  void choose(const LayerRequest& request);
  void add_step(Pass pass, const std::string& id);
  LayerTensors tensors(const LayerAddresses& addresses) const;
  void run_on(Context& context, Pass pass, const LayerAddresses& addresses,
              const CallOptions& options);
  [[noreturn]] void refuse(const std::string& what, bool unsupported) const;
  std::string label() const;

  std::shared_ptr<Layer> layer_;
  std::shared_ptr<Context> context_;  // to prepare in; of a GPU with Duet's own stream
  std::vector<std::unique_ptr<BoundOp>> ops_;
  std::map<Pass, Step> steps_;
  Buffer step_number_;  // number 0
  size_t state_bytes_ = 0;
  bool reads_output_ = false;
  std::mutex running_;
};

}  // namespace duet::python
