// Loads compiled functions into this process and calls them.
#include <dlfcn.h>

#include "core/error.h"
#include "user_kernels/loaded_kernels.h"
#include "user_kernels/shared_library.h"

namespace duet {
namespace {

class CpuKernels : public LoadedKernels {
 public:
  CpuKernels(const CompiledKernels& compiled, const KernelInterface& interface)
      : LoadedKernels(compiled, interface) {
    void* library = open_library(compiled.code);
    for (const KernelLaunch& launch : compiled.launches) {
      void* symbol = dlsym(library, launch.kernel.c_str());
      if (!symbol) throw RunError("compiled kernels have no " + launch.kernel);
      functions_[launch.pass] = reinterpret_cast<Function>(symbol);
    }
  }

 protected:
  void call(Pass pass, const Run& run, const Pointers& tensors, size_t, void* state) override {
    const HostExtras extras = {run.workspace, state, run.step, run.training};
    functions_.at(pass)(tensors.data(), &extras);
  }

 private:
  using Function = void (*)(void* const* tensors, const HostExtras* extras);
  std::map<Pass, Function> functions_;
};

}  // namespace

std::unique_ptr<Implementation> make_cpu_kernels(const CompiledKernels& compiled,
                                                 const KernelInterface& interface) {
  return std::make_unique<CpuKernels>(compiled, interface);
}

}  // namespace duet
