// Looks up symbols in the tables of an ELF file, including symbols that are not exported. Each call
// reads the file.
#pragma once

#include <link.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace wherry::impl {

struct ElfSymbol {
  std::string name;
  std::uint64_t offset = 0;  // of the address from the start of the function
};

// Returns the function that covers `address` in the file at `path`; addresses are the file's own (0
// is where the module is loaded). Returns nullopt if the symbol table has no such function, or if
// the file cannot be read.
std::optional<ElfSymbol> find_elf_symbol(const std::string& path, std::uint64_t address);

// A section of variables; addresses are the file's own.
struct ElfVariables {
  struct Variable {
    std::uint64_t start = 0;
    std::uint64_t bytes = 0;
    std::string exported_as;  // empty if not exported
  };
  std::uint64_t start = 0;
  std::uint64_t bytes = 0;
  bool shares_pages = false;  // its first or last page also holds other sections
  // the variables that a symbol table names, in no order, possibly repeated
  std::vector<Variable> variables;
};

// Finds the section of this name in the file at `path`. `segments` are the loaded module's program
// headers. Returns nullopt if the file has no such section, cannot be read, or is no longer the
// file that was loaded.
std::optional<ElfVariables> find_elf_variables(const std::string& path,
                                               std::span<const ElfW(Phdr)> segments,
                                               std::string_view section_name);

}  // namespace wherry::impl
