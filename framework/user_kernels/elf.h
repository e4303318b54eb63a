// Compiled code, an ELF file for a GPU or the host: its symbols, and the bytes of its variables.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace duet {

struct ElfSymbol {
  std::string name;       // mangled
  std::string demangled;  // "forward(float const*, float*)"
  bool is_function = false;
  std::string_view bytes;  // of a variable with a value
};

/// Throws RunError where it is no such file, whole or damaged. REQUIRES: `code` outlives what is
/// returned.
std::vector<ElfSymbol> elf_symbols(std::string_view code);
/// Bytes that variables take as soon as the code is loaded, on a GPU of its memory.
uint64_t elf_variable_bytes(std::string_view code);

}  // namespace duet
