// Code compiled for a GPU, an ELF file: its symbols, and the bytes of its variables in constant memory.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace duet {

struct CubinSymbol {
  std::string name;       // mangled
  std::string demangled;  // "forward(float const*, float*)"
  bool is_kernel = false;
  std::string_view bytes;  // of a variable with a value
};

/// Throws RunError where it is no such file, whole or damaged. REQUIRES: `cubin` outlives what is
/// returned.
std::vector<CubinSymbol> cubin_symbols(std::string_view cubin);

}  // namespace duet
