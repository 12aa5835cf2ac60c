#include "os/elf_symbols.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "os/fd.h"

namespace wherry::impl {
namespace {

using Header = ElfW(Ehdr);
using Section = ElfW(Shdr);
using Symbol = ElfW(Sym);

// No file that is worth naming functions from has larger tables.
constexpr std::uint64_t table_limit = 512 << 20;

bool read_at(const Fd& file, void* target, std::size_t bytes, std::uint64_t offset) {
  auto* place = static_cast<char*>(target);
  while (bytes > 0) {
    const ssize_t got = ::pread(file.get(), place, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    place += got;
    offset += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

template <typename T>
std::vector<T> read_table(const Fd& file, std::uint64_t offset, std::uint64_t bytes) {
  std::vector<T> table;
  if (bytes > table_limit) return table;
  table.resize(bytes / sizeof(T));
  if (!read_at(file, table.data(), table.size() * sizeof(T), offset)) table.clear();
  return table;
}

const Symbol* covering_function(const std::vector<Symbol>& symbols, std::uint64_t address) {
  for (const Symbol& symbol : symbols) {
    if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_shndx != SHN_UNDEF &&
        address >= symbol.st_value && address - symbol.st_value < symbol.st_size)
      return &symbol;
  }
  return nullptr;
}

}  // namespace

std::optional<ElfSymbol> find_elf_symbol(const std::string& path, std::uint64_t address) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  Header header;
  if (!file || !read_at(file, &header, sizeof header, 0) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_shentsize != sizeof(Section))
    return {};
  const auto sections =
      read_table<Section>(file, header.e_shoff, std::uint64_t{header.e_shnum} * sizeof(Section));
  for (const Section& section : sections) {
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) continue;
    const auto symbols = read_table<Symbol>(file, section.sh_offset, section.sh_size);
    const Symbol* found = covering_function(symbols, address);
    if (found == nullptr) continue;
    const Section& strings = sections[section.sh_link];
    auto names = read_table<char>(file, strings.sh_offset, strings.sh_size);
    if (found->st_name >= names.size()) return {};
    names.back() = '\0';
    return ElfSymbol{&names[found->st_name], address - found->st_value};
  }
  return {};
}

}  // namespace wherry::impl
