#include "os/files/elf_symbols.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/page.h"
#include "os/files/elf_file.h"

namespace wherry::impl {
namespace {

using Section = ElfFile::Section;
using Symbol = ElfFile::Symbol;

const Symbol* covering_function(const std::vector<Symbol>& symbols, std::uint64_t address) {
  for (const Symbol& symbol : symbols) {
    if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_shndx != SHN_UNDEF &&
        address >= symbol.st_value && address - symbol.st_value < symbol.st_size)
      return &symbol;
  }
  return nullptr;
}

const char* name_in(const std::vector<char>& strings, std::uint32_t at) {
  return at < strings.size() ? &strings[at] : "";
}

// Whether the section occupies any of these addresses.
bool occupies(const Section& section, std::uint64_t start, std::uint64_t end) {
  const bool is_template = (section.sh_flags & SHF_TLS) != 0;
  return (section.sh_flags & SHF_ALLOC) != 0 && !is_template && section.sh_size != 0 &&
         section.sh_addr < end && section.sh_addr + section.sh_size > start;
}

}  // namespace

std::optional<ElfSymbol> find_elf_symbol(const std::string& path, std::uint64_t address) {
  const auto file = ElfFile::open(path);
  if (!file) return {};
  const auto& sections = file->sections();
  for (const Section& section : sections) {
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) continue;
    const auto symbols = file->table<Symbol>(section);
    const Symbol* found = covering_function(symbols, address);
    if (found == nullptr) continue;
    const auto names = file->strings(sections[section.sh_link]);
    if (found->st_name >= names.size()) return {};
    return ElfSymbol{&names[found->st_name], address - found->st_value};
  }
  return {};
}

std::optional<ElfVariables> find_elf_variables(const std::string& path,
                                               std::span<const ElfW(Phdr)> segments,
                                               std::string_view section_name) {
  const auto file = ElfFile::open(path);
  if (!file || file->header().e_shstrndx >= file->sections().size()) return {};
  const auto& sections = file->sections();
  const auto section_names = file->strings(sections[file->header().e_shstrndx]);
  const auto section = std::ranges::find_if(sections, [&](const Section& one) {
    return one.sh_size != 0 && section_name == name_in(section_names, one.sh_name);
  });
  if (section == sections.end()) return {};
  const auto in_file = file->segments();
  if (in_file.size() != segments.size() ||
      std::memcmp(in_file.data(), segments.data(), segments.size_bytes()) != 0)
    return {};

  ElfVariables found{section->sh_addr, section->sh_size, false, {}};
  const std::uint64_t first_page = round_down(found.start, page_size);
  const std::uint64_t end = found.start + found.bytes;
  found.shares_pages = std::ranges::any_of(sections, [&](const Section& other) {
    return &other != &*section && occupies(other, first_page, round_up(end, page_size));
  });
  const auto index = static_cast<std::size_t>(section - sections.begin());
  for (const Section& table : sections) {
    if (table.sh_type != SHT_SYMTAB && table.sh_type != SHT_DYNSYM) continue;
    const auto names = table.sh_type == SHT_DYNSYM && table.sh_link < sections.size()
                           ? file->strings(sections[table.sh_link])
                           : std::vector<char>();
    for (const Symbol& symbol : file->table<Symbol>(table))
      if (ELF64_ST_TYPE(symbol.st_info) == STT_OBJECT && symbol.st_shndx == index &&
          symbol.st_value >= found.start && symbol.st_value <= end &&
          symbol.st_size <= end - symbol.st_value)
        found.variables.push_back(
            {symbol.st_value, symbol.st_size, name_in(names, symbol.st_name)});
  }
  return found;
}

}  // namespace wherry::impl
