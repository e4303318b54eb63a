// Where a network runs. One Context a network: its device, the stream and its library handles;
// and what each run of an implementation is given. No CUDA header is needed to include this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "core/ports.h"
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

  /// The most workspace an implementation may ask for when it is made.
  size_t workspace_limit() const { return workspace_limit_; }
  void set_workspace_limit(size_t bytes) { workspace_limit_ = bytes; }

 private:
  struct Gpu;

  Device device_;
  std::unique_ptr<Gpu> gpu_;
  size_t workspace_limit_ = size_t{1} << 30;
};

struct RunAside;

/// What a run of an implementation is given beside its tensors.
struct Run {
  Context& context;
  /// Scratch memory on the context's device, whose content does not survive the run. At least as
  /// large as the implementation's workspace_bytes().
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
  /// Where the number of the training step stands, in memory of the context's device: a captured
  /// graph cannot carry it as an argument. Random masks are drawn for it. Never nullptr.
  const uint64_t* step = nullptr;
  /// False in evaluation: dropout is the identity, and statistics are as they are saved.
  bool training = true;
  /// True where no backward pass follows and nobody changes the parameters meanwhile: forward need
  /// keep no state, and kernels may read the parameters before wait_for_primary().
  bool inference = false;
  Ports ports = {};
  /// Where the rest of a pass may run beside those that follow (device/side_stream.h), or nullptr.
  RunAside* aside = nullptr;

  CUstream_st* stream() const { return context.stream(); }
};

}  // namespace duet
