// What the symbol tables of an ELF file say, also of what is not exported. Each call reads the
// file.
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
  std::uint64_t offset = 0;  // of the address from the function's start
};

// The function of the file at `path` that covers `address`, as the file counts addresses (0 is
// where the module is loaded); nothing when the file is stripped there or cannot be read.
std::optional<ElfSymbol> find_elf_symbol(const std::string& path, std::uint64_t address);

// A section of variables, as the file counts addresses.
struct ElfVariables {
  struct Variable {
    std::uint64_t start = 0;
    std::uint64_t bytes = 0;
    std::string exported_as;  // empty: it is not
  };
  std::uint64_t start = 0;
  std::uint64_t bytes = 0;
  bool shares_pages = false;        // its first or last page has something else, too
  std::vector<Variable> variables;  // those that a table names, in no order, perhaps several times
};

// The section of this name in the file at `path`. `segments`: of the loaded module that the file is
// asked about. Nothing: it has no such section, cannot be read, or is another file by now.
std::optional<ElfVariables> find_elf_variables(const std::string& path,
                                               std::span<const ElfW(Phdr)> segments,
                                               std::string_view section_name);

}  // namespace wherry::impl
