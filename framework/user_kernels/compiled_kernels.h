// A file's kernels compiled for one problem: whether they fit it, what a pass launches, and the code.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "user_kernels/kernel_file.h"
#include "user_kernels/kernel_interface.h"
#include "user_kernels/prelude.h"

namespace duet {

class PluginRow;

struct KernelLaunch {
  Pass pass = Pass::kForward;
  int line = 0;        // in the user's file, of DUET_LAUNCH or of the CPU's function
  std::string kernel;  // symbol in the code
  std::array<uint32_t, 3> grid{}, block{};
  size_t shared = 0;                // bytes, dynamic
  std::vector<KernelExtra> extras;  // behind the tensors
  int registers = 0;                // of a thread
  size_t static_shared = 0;         // bytes a block
  size_t spilled = 0;               // bytes a thread stores and loads
  bool overlaps = false;            // waits for its primary itself (device/launch.h)
};

struct CompiledKernels {
  Device device = Device::kGpu;
  /// Why no pass runs: DUET_REQUIRES, or what is wrong with the file, in the compiler's words.
  std::string refusal;
  bool mistake = false;  // the refusal tells of a mistake in the file, not of the problem
  std::map<Pass, std::string> refusals;  // DUET_REQUIRES_IN

  std::vector<KernelLaunch> launches;  // those of a pass in their order
  std::map<Pass, size_t> workspace;
  size_t state = 0;
  std::vector<TuneRow> tunes;
  std::vector<TunedValue> tuned;      // with these values, and else the defaults
  std::string code;                   // an ELF file: a cubin, or a shared library
  const PluginRow* plugin = nullptr;  // of a plugin; it has no launches
  int capability = 0;                 // of a GPU: 90, compiled for 9.0
  double seconds = 0;                 // to compile
  bool cached = false;                // and not compiled this time

  /// Why `pass` does not run, or nothing. REQUIRES: no plugin, which is asked itself.
  std::optional<std::string> unsupported(Pass pass) const;
};

/// Compiles for the GPU in use, without one for compute capability 9.0; or, by the host's C++ compiler,
/// for this CPU. A plugin's code is the same for all problems. Of a file that was compiled before, for these sizes, by this compiler, the code comes from
/// ~/.cache/duet/kernels: files of it may be deleted at any time, and one that is damaged is made
/// anew. Throws UnsupportedError where there is no compiler, or none that knows the GPU.
CompiledKernels compile_kernels(const KernelFile& file, const Layer& layer,
                                const std::vector<TunedValue>& tuned = {});

}  // namespace duet
