// Files that are plugins (user_kernels/plugin.h): compiled with Duet's headers, opened, and asked for their
// row.
#pragma once

#include <memory>
#include <string>

#include "user_kernels/kernel_compiler.h"
#include "user_kernels/plugin.h"

namespace duet {

/// nvcc for a GPU of this compute capability (90: 9.0), or the host's compiler for the CPU. Throws
/// UnsupportedError: there is no such compiler, no headers, or those of another Duet than this program.
std::unique_ptr<const KernelCompiler> plugin_compiler(Device device, int capability);

/// The row of a compiled plugin, for as long as the process lives. Throws ConfigError: the library needs what
/// this program does not have, or its row is not the file's.
const PluginRow* open_plugin(const KernelFile& file, const std::string& code, const Layer& layer);

}  // namespace duet
