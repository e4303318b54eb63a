// Of a build without CUDA: files compile there, and nothing launches them.
#include "core/error.h"
#include "device/device.h"
#include "user_kernels/loaded_kernels.h"

namespace duet {

std::unique_ptr<Implementation> make_gpu_kernels(const CompiledKernels&, const KernelInterface&) {
  throw UnsupportedError(gpu_missing_reason());
}

}  // namespace duet
