// What makes code of a file for a device: NVRTC for a GPU, the host's C++ compiler for the CPU. All else
// about a file of kernels, but its launch, is the same for both.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "user_kernels/kernel_file.h"

namespace duet {

struct CompiledCode {
  std::string code;  // an ELF file; empty: there were errors
  std::string log;   // what the compiler said
};

/// A compiler that does not end, or prints without end. It is not to be asked the same again.
class CompilerHangsError : public RunError {
 public:
  using RunError::RunError;
};
/// How long programs that compile may take, from now on; 5 minutes before.
void set_compiler_patience(std::chrono::milliseconds patience);

class KernelCompiler {
 public:
  virtual ~KernelCompiler() = default;

  /// All that the code depends on beside its source: version, options, processor.
  virtual std::string key() const = 0;
  /// `source` is the whole text, `file` names its lines and has what it includes. Throws RunError for
  /// what is not the source's fault.
  virtual CompiledCode compile(const KernelFile& file, const std::string& source) const = 0;
};

/// Both throw UnsupportedError: there is no such compiler here, or it makes no such code.
std::unique_ptr<const KernelCompiler> gpu_compiler(int capability);
std::unique_ptr<const KernelCompiler> cpu_compiler();

/// "g++ (Debian 12.2.0-14) 12.2.0 (/usr/bin/c++)"; "none: " and why. For people.
std::string cpu_compiler_text();

}  // namespace duet
