// What a file's macros, and for the CPU its functions, leave in the compiled code (prelude.h).
#pragma once

#include <string>

#include "user_kernels/compiled_kernels.h"

namespace duet {

/// Fills in what the code says, with what the compiler's log tells of it: launches, memory, refusals, or
/// what is wrong with them. Throws RunError where the code is damaged.
void read_tables(const KernelFile& file, const Layer& layer, const std::string& log,
                 CompiledKernels* made);

}  // namespace duet
