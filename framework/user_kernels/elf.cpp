#include "user_kernels/elf.h"

#include <cxxabi.h>
#include <elf.h>

#include <cstdlib>
#include <cstring>
#include <memory>

#include "core/error.h"

namespace duet {
namespace {

class Elf {
 public:
  explicit Elf(std::string_view bytes) : bytes_(bytes) {
    header_ = read<Elf64_Ehdr>(0);
    if (std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0 ||
        header_.e_ident[EI_CLASS] != ELFCLASS64) {
      throw RunError("compiled code is no ELF file");
    }
  }

  Elf64_Shdr section(size_t number) const {
    if (number >= header_.e_shnum) throw RunError("compiled code is damaged: no such section");
    return read<Elf64_Shdr>(header_.e_shoff + number * sizeof(Elf64_Shdr));
  }
  size_t sections() const { return header_.e_shnum; }
  std::string_view name(const Elf64_Shdr& section) const {
    const std::string_view names = content(this->section(header_.e_shstrndx));
    if (section.sh_name >= names.size()) throw RunError("compiled code is damaged: a name");
    const std::string_view rest = names.substr(section.sh_name);
    return rest.substr(0, rest.find('\0'));
  }
  std::string_view content(const Elf64_Shdr& section) const {
    return part(section.sh_offset, section.sh_size);
  }
  std::string_view part(uint64_t offset, uint64_t size) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset) {
      throw RunError("compiled code is damaged: it ends early");
    }
    return bytes_.substr(offset, size);
  }
  template <class T>
  T read(uint64_t offset) const {
    T value;
    std::memcpy(&value, part(offset, sizeof value).data(), sizeof value);
    return value;
  }

 private:
  std::string_view bytes_;
  Elf64_Ehdr header_;
};

std::string demangle(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  return text ? text.get() : name;
}

// A variable's, where its section has some. A symbol's value is its address in memory, where a file for
// a GPU has its sections at 0.
std::string_view bytes_of(const Elf& elf, const Elf64_Sym& symbol) {
  if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT) return {};
  if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx >= elf.sections()) return {};
  const Elf64_Shdr section = elf.section(symbol.st_shndx);
  if (section.sh_type == SHT_NOBITS) return {};
  const std::string_view all = elf.content(section);
  const uint64_t at = symbol.st_value - section.sh_addr;
  if (at > all.size() || symbol.st_size > all.size() - at) return {};
  return all.substr(at, symbol.st_size);
}

}  // namespace

std::vector<ElfSymbol> elf_symbols(std::string_view code) {
  const Elf elf(code);
  std::vector<ElfSymbol> symbols;
  for (size_t i = 0; i < elf.sections(); ++i) {
    const Elf64_Shdr table = elf.section(i);
    if (table.sh_type != SHT_SYMTAB) continue;
    const std::string_view names = elf.content(elf.section(table.sh_link));
    for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table.sh_size; at += sizeof(Elf64_Sym)) {
      const auto symbol = elf.read<Elf64_Sym>(table.sh_offset + at);
      if (symbol.st_name >= names.size()) throw RunError("compiled code is damaged: a name");
      const std::string_view rest = names.substr(symbol.st_name);
      const std::string name(rest.substr(0, rest.find('\0')));
      if (name.empty()) continue;
      symbols.push_back(
          {name, demangle(name), ELF64_ST_TYPE(symbol.st_info) == STT_FUNC, bytes_of(elf, symbol)});
    }
  }
  return symbols;
}

uint64_t elf_variable_bytes(std::string_view code) {
  const Elf elf(code);
  uint64_t bytes = 0;
  for (size_t i = 0; i < elf.sections(); ++i) {
    const Elf64_Shdr section = elf.section(i);
    const bool variable = (section.sh_flags & SHF_ALLOC) && (section.sh_flags & SHF_WRITE);
    const std::string_view name = elf.name(section);
    // A block has the one and a thread the other while it runs.
    if (name.starts_with(".nv.shared") || name.starts_with(".nv.local")) continue;
    if (variable) bytes += section.sh_size;
  }
  return bytes;
}

}  // namespace duet
