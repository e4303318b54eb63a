// Compiled kernels as an implementation: what they need of memory, and the arguments of a pass. How they
// are loaded and called is their device's.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>

#include "layers/implementation.h"
#include "user_kernels/compiled_kernels.h"
#include "user_kernels/kernel_interface.h"

namespace duet {

class LoadedKernels : public Implementation {
 public:
  LoadedKernels(const CompiledKernels& compiled, const KernelInterface& interface);

  size_t workspace_bytes(Pass pass) const final;
  size_t state_bytes() const final { return state_; }
  /// Does nothing where nobody needs what the pass writes.
  void run(Pass pass, const Run& run, const LayerTensors& tensors) final;

 protected:
  static constexpr size_t kMostArguments = 160;
  /// The memory of each of a pass's tensors, and room behind them.
  using Pointers = std::array<void*, kMostArguments>;

  virtual void call(Pass pass, const Run& run, const Pointers& tensors, size_t count,
                    void* state) = 0;

 private:
  const std::map<Pass, std::vector<KernelTensor>> tensors_;
  const std::map<Pass, size_t> workspace_;
  const size_t state_;
};

/// Kernels in a GPU's memory, ready to be launched. Throws UnsupportedError in a build that cannot.
std::unique_ptr<Implementation> make_gpu_kernels(const CompiledKernels& compiled,
                                                 const KernelInterface& interface);
/// Functions in this process.
std::unique_ptr<Implementation> make_cpu_kernels(const CompiledKernels& compiled,
                                                 const KernelInterface& interface);

}  // namespace duet
