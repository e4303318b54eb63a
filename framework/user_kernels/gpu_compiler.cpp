#include "core/config.h"
#include "core/error.h"
#include "device/nvrtc.h"
#include "user_kernels/kernel_compiler.h"

namespace duet {
namespace {

class GpuCompiler : public KernelCompiler {
 public:
  GpuCompiler(const Nvrtc& nvrtc, int capability) : nvrtc_(nvrtc) {
    // What only one architecture has (wgmma, TMA's multicast) is in "90a" and its likes.
    const std::string own = capability >= 90 ? "a" : "";
    options_ = {"--gpu-architecture=sm_" + std::to_string(capability) + own, "-std=c++20",
                "-default-device", "-lineinfo", "--ptxas-options=-v"};
    if (!nvrtc.includes().empty()) {
      options_.push_back("-I" + nvrtc.includes());
      options_.push_back("-I" + nvrtc.includes() + "/cccl");
    }
  }

  std::string key() const override {
    return "NVRTC " + nvrtc_.version() + " " + join(options_, " ");
  }
  CompiledCode compile(const KernelFile& file, const std::string& source) const override {
    Nvrtc::Compiled made = nvrtc_.compile(source, file.headers, options_);
    return {std::move(made.cubin), std::move(made.log)};
  }

 private:
  const Nvrtc& nvrtc_;
  std::vector<std::string> options_;
};

}  // namespace

std::unique_ptr<const KernelCompiler> gpu_compiler(int capability) {
  const Nvrtc* nvrtc = Nvrtc::find();
  if (!nvrtc) throw UnsupportedError(Nvrtc::missing_reason());
  if (!nvrtc->knows(capability)) {
    throw UnsupportedError("NVRTC " + nvrtc->version() + " (" + nvrtc->path() +
                           ") makes no code for compute capability " +
                           std::to_string(capability / 10) + "." + std::to_string(capability % 10));
  }
  return std::make_unique<GpuCompiler>(*nvrtc, capability);
}

}  // namespace duet
