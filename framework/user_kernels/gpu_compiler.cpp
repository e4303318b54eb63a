#include "core/config.h"
#include "core/error.h"
#include "device/nvrtc.h"
#include "user_kernels/kernel_compiler.h"

namespace duet {
namespace {

// What a file for nvcc finds in the host's headers, of which NVRTC has none: their names stand before a
// file's own text, as <cuda/std/...> defines them, and the headers are empty.
constexpr const char* kStandardNames = R"cuda(
#ifndef INFINITY
#define INFINITY __builtin_bit_cast(float, 0x7f800000)
#endif
#ifndef NAN
#define NAN __builtin_bit_cast(float, 0x7fc00000)
#endif
#ifndef FLT_MAX
#define FLT_MAX 3.402823466e+38F
#define FLT_MIN 1.175494351e-38F
#define FLT_EPSILON 1.192092896e-07F
#endif
#ifndef M_PI
#define M_PI 3.14159265358979323846
#endif
#ifndef INT_MAX
#define INT_MAX 0x7fffffff
#define INT_MIN (-INT_MAX - 1)
#define UINT_MAX 0xffffffff
#endif
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
)cuda";
constexpr const char* kStandardHeaders[] = {"cfloat",   "climits", "cmath",    "cstddef",
                                            "cstdint",  "float.h", "limits.h", "math.h",
                                            "stddef.h", "stdint.h"};

class GpuCompiler : public KernelCompiler {
 public:
  GpuCompiler(const Nvrtc& nvrtc, int capability) : nvrtc_(nvrtc) {
    // What only one architecture has (wgmma, TMA's multicast) is in "90a" and its likes.
    const std::string own = capability >= 90 ? "a" : "";
    options_ = {"--gpu-architecture=sm_" + std::to_string(capability) + own, "-std=c++20",
                "-default-device", "-lineinfo", "--ptxas-options=-v"};
    // Code from its own cache comes without a word of registers.
    if (std::stoi(nvrtc.version()) >= 13) options_.push_back("--no-cache");
    if (!nvrtc.includes().empty()) {
      options_.push_back("-I" + nvrtc.includes());
      options_.push_back("-I" + nvrtc.includes() + "/cccl");
    }
  }

  std::string key() const override {
    return "NVRTC " + nvrtc_.version() + " " + join(options_, " ") + kStandardNames;
  }
  CompiledCode compile(const KernelFile& file, const std::string& source) const override {
    auto headers = file.headers;
    for (const char* name : kStandardHeaders) headers.emplace_back(name, "");
    Nvrtc::Compiled made = nvrtc_.compile(kStandardNames + source, headers, options_);
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
