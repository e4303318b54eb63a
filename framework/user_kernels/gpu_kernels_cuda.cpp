// Loads compiled kernels into the GPU and launches them.
#include <cuda_runtime.h>

#include "core/error.h"
#include "device/check.h"
#include "device/launch.h"
#include "user_kernels/loaded_kernels.h"

namespace duet {
namespace {

#if CUDART_VERSION >= 12080

// Loaded once and never unloaded: a measurement makes instances by the hundred, and a graph may hold
// kernels of one that is gone.
cudaLibrary_t library_of(const std::string& cubin) {
  static std::map<std::string, cudaLibrary_t> loaded;
  const auto [found, added] = loaded.emplace(cubin, nullptr);
  if (!added) return found->second;
  try {
    DUET_CUDA(cudaLibraryLoadData(&found->second, cubin.data(), nullptr, nullptr, 0, nullptr,
                                  nullptr, 0));
  } catch (...) {
    loaded.erase(found);
    throw;
  }
  return found->second;
}

// DUET_LAUNCH launches without an attribute: such a kernel begins when the one before it on the stream
// has ended, however early that one let others start, so that it need not wait for anything.
class GpuKernels : public LoadedKernels {
 public:
  GpuKernels(const CompiledKernels& compiled, const KernelInterface& interface)
      : LoadedKernels(compiled, interface) {
    for (const KernelLaunch& launch : compiled.launches) {
      cudaKernel_t kernel = nullptr;
      DUET_CUDA(cudaLibraryGetKernel(&kernel, library_of(compiled.code), launch.kernel.c_str()));
      // Asks the driver for the kernel, which puts it into the GPU's memory now and not in a step.
      cudaFuncAttributes attributes{};
      DUET_CUDA(cudaFuncGetAttributes(&attributes, kernel));
      if (launch.shared + attributes.sharedSizeBytes > kSharedUnasked) {
        DUET_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       static_cast<int>(launch.shared)));
      }
      launches_[launch.pass].push_back({launch, kernel});
    }
  }

 protected:
  void call(Pass pass, const Run& run, const Pointers& tensors, size_t count,
            void* state) override {
    for (const Loaded& each : launches_.at(pass)) launch(each, tensors, count, run, state);
  }

 private:
  static constexpr size_t kSharedUnasked = 48 << 10;

  struct Loaded {
    KernelLaunch launch;
    cudaKernel_t kernel;
  };

  static void launch(const Loaded& loaded, Pointers pointers, size_t count, const Run& run,
                     void* state) {
    const KernelLaunch& launch = loaded.launch;
    bool training = run.training;
    std::array<void*, kMostArguments> arguments{};
    for (size_t i = 0; i < count; ++i) arguments[i] = &pointers[i];
    for (const KernelExtra extra : launch.extras) {
      void*& value = pointers[count];
      if (extra == KernelExtra::kWorkspace) value = run.workspace;
      if (extra == KernelExtra::kState) value = state;
      if (extra == KernelExtra::kStep) value = const_cast<uint64_t*>(run.step);
      arguments[count++] = extra == KernelExtra::kTraining ? static_cast<void*>(&training) : &value;
    }
    const auto dim = [](const std::array<uint32_t, 3>& v) { return dim3(v[0], v[1], v[2]); };
    cudaLaunchAttribute attribute = overlaps_primary();
    const cudaLaunchConfig_t config = {.gridDim = dim(launch.grid),
                                       .blockDim = dim(launch.block),
                                       .dynamicSmemBytes = launch.shared,
                                       .stream = run.stream(),
                                       .attrs = &attribute,
                                       .numAttrs = launch.overlaps ? 1u : 0u};
    DUET_CUDA(
        cudaLaunchKernelExC(&config, static_cast<const void*>(loaded.kernel), arguments.data()));
  }

  std::map<Pass, std::vector<Loaded>> launches_;
};

#endif

}  // namespace

std::unique_ptr<Implementation> make_gpu_kernels(const CompiledKernels& compiled,
                                                 const KernelInterface& interface) {
#if CUDART_VERSION >= 12080
  return std::make_unique<GpuKernels>(compiled, interface);
#else
  throw UnsupportedError("kernels of a file are loaded by CUDA 12.8 and newer; this build has " +
                         std::to_string(CUDART_VERSION / 1000) + "." +
                         std::to_string(CUDART_VERSION % 1000 / 10));
#endif
}

}  // namespace duet
