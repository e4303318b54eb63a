// What an implementation must leave as it found it, because all others in the process live with it.
#pragma once

#include <cfenv>
#include <exception>
#include <string>
#include <string_view>

#include "device/context.h"
#include "device/gpu_state.h"

namespace duet {

/// The state of the process, and of its GPU, when this was made: the calling thread's rounding mode
/// and flushing of denormal numbers, open descriptors, threads that keep computing; CUDA's last
/// error, and the share of the L2 cache set aside for persisting accesses.
class ProcessState {
 public:
  /// Waits for the context's device. REQUIRES: the context outlives this.
  explicit ProcessState(Context& context);

  /// What is otherwise now, in words; empty if nothing is. All of it is as before afterwards,
  /// except threads and descriptors: nobody but who made them can end them.
  std::string restore();
  /// Whether restore() found what stays.
  bool is_spoilt() const { return spoilt_; }

 private:
  std::string restore_floating_point();
  std::string restore_gpu();

  Context& context_;
  std::fenv_t environment_;
  const int rounding_;
  const unsigned flushing_;
  const size_t descriptors_;
  const bool busy_;
  gpu::PersistingCache cache_;
  bool spoilt_ = false;
};

/// "failed: ..." of the exception that is being handled, of whatever type, thrown where
/// implementation `id` ran; an interrupt and an UnusableProcessError go on. Throws UnusableProcessError, which
/// names `id`, if the GPU does nothing more for this process. REQUIRES: called in a catch block.
std::string text_of_failure(std::string_view id, Device device);

}  // namespace duet
