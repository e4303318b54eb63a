// Where a network runs. One Context a network: its device, the stream, its library handles, and the
// few things an implementation may read while it runs. No CUDA header is needed to include this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "core/tensor.h"
#include "device/device.h"

struct CUstream_st;
struct cudnnContext;
struct cublasContext;

namespace duet {

class Context {
 public:
  /// Work goes to `stream` (a cudaStream_t of the caller's, who keeps it alive), or, without one,
  /// to the stream that all such contexts of the process share. Throws UnsupportedError if `device`
  /// is kGpu and there is no GPU (or this build has no CUDA).
  explicit Context(Device device, CUstream_st* stream = nullptr);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Device device() const { return device_; }

  /// All GPU work of a network goes to this stream (a cudaStream_t). nullptr on the CPU.
  CUstream_st* stream() const;
  /// The library handles, on stream(); created on first use, so that a network without cuDNN never
  /// loads it. REQUIRES: device() == Device::kGpu.
  cudnnContext* cudnn();
  cublasContext* cublas();
  /// Waits for all work of the whole device.
  void synchronize();

  /// Copy and fill memory of device() in the order of the work queued; on a GPU without waiting.
  void queue_copy(void* to, const void* from, size_t bytes);
  void queue_fill(void* memory, int byte, size_t bytes);
  /// Lets the work queued from here on wait for `seconds`. Nothing on the CPU, where run()
  /// computes.
  void queue_delay(double seconds);

  /// Scratch memory shared by all layers, on device(); its content does not survive a layer's pass.
  /// At least as large as the largest workspace_bytes() of the implementations of the network.
  void* workspace() const { return workspace_; }
  size_t workspace_bytes() const { return workspace_bytes_; }
  void set_workspace(void* memory, size_t bytes) {
    workspace_ = memory;
    workspace_bytes_ = bytes;
  }
  /// The most workspace an implementation may ask for when it is made.
  size_t workspace_limit() const { return workspace_limit_; }
  void set_workspace_limit(size_t bytes) { workspace_limit_ = bytes; }

  /// Where the number of the current training step stands, in memory of device(). Kernels read it
  /// there, because a captured graph cannot carry it as an argument. Never nullptr while a layer
  /// runs.
  const uint64_t* step() const { return step_; }
  void set_step(const uint64_t* step) { step_ = step; }

  /// True in training, false in evaluation (dropout is the identity then).
  bool training() const { return training_; }
  void set_training(bool training) { training_ = training; }

 private:
  struct Gpu;

  Device device_;
  std::unique_ptr<Gpu> gpu_;
  void* workspace_ = nullptr;
  size_t workspace_bytes_ = 0;
  size_t workspace_limit_ = size_t{1} << 30;
  const uint64_t* step_ = nullptr;
  bool training_ = true;
};

}  // namespace duet
