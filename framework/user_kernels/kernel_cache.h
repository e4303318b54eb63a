// What compilers made, kept in files, from run to run and for processes at once. Whatever is wrong with
// a file costs a compilation and nothing else.
#pragma once

#include <optional>
#include <string>

#include "user_kernels/kernel_compiler.h"

namespace duet {

/// `key` is all that the code depends on; entries are told apart by all of it.
std::optional<CompiledCode> find_cached(const std::string& key);
void keep_cached(const std::string& key, const CompiledCode& made);

}  // namespace duet
