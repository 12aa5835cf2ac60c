// Names of functions that are not exported, from the symbol table of an ELF file. Reads the file on
// each call: for log lines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace wherry::impl {

struct ElfSymbol {
  std::string name;
  std::uint64_t offset = 0;  // of the address from the function's start
};

// The function of the file at `path` that covers `address`, as the file counts addresses (0 is
// where the module is loaded); nothing when the file is stripped there or cannot be read.
std::optional<ElfSymbol> find_elf_symbol(const std::string& path, std::uint64_t address);

}  // namespace wherry::impl
