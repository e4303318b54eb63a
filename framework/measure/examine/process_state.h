// What an implementation must leave as it found it, because all others in the process live with it.
#pragma once

#include <sched.h>
#include <signal.h>
#include <sys/types.h>

#include <array>
#include <cfenv>
#include <exception>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "device/context.h"
#include "device/gpu_state.h"

namespace duet {

/// The state of the process, and of its GPU, when this was made: rounding mode and flushing of
/// denormal numbers of the calling thread and of OpenMP's, the number of these, the CPUs that each
/// thread may run on, the working folder, timers, handlers of signals and blocked signals, child
/// processes, open descriptors, threads that keep computing; CUDA's last error, and the share of
/// the L2 cache set aside for persisting accesses.
class ProcessState {
 public:
  /// Waits for the context's device. REQUIRES: the context outlives this.
  explicit ProcessState(Context& context);
  ~ProcessState();
  ProcessState(const ProcessState&) = delete;
  ProcessState& operator=(const ProcessState&) = delete;

  /// What is otherwise now, in words; empty if nothing is. All of it is as before afterwards,
  /// except threads and descriptors: nobody but who made them can end them. New child processes are
  /// killed in a process that was made to measure (Running::is_shared), and left alone in others.
  std::string restore();
  /// Whether restore() found what stays.
  bool is_spoilt() const { return spoilt_; }

 private:
  using Handlers = std::array<struct sigaction, 65>;  // by signal

  std::string restore_floating_point();
  std::string restore_threads();
  std::string restore_affinity();
  std::string restore_folder();
  std::string restore_signals();
  std::string end_children();
  std::string restore_gpu();

  Context& context_;
  std::fenv_t environment_;
  const int rounding_;
  const unsigned flushing_;
  const int openmp_threads_;
  const std::map<pid_t, cpu_set_t> affinities_;  // by thread
  const std::filesystem::path folder_;
  const Handlers handlers_;
  const sigset_t blocked_;
  const std::vector<int> timers_;  // that run
  const std::vector<pid_t> children_;
  int adopted_before_ = 0;  // whether orphaned descendants became this process's children
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
