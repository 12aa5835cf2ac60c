#include "run/own_calls.h"

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace wherry::run {
namespace {

struct Code {
  std::uintptr_t start = 0;
  std::uintptr_t end = 0;

  bool has(std::uintptr_t address) const { return address >= start && address < end; }
  bool has(const void* address) const { return has(reinterpret_cast<std::uintptr_t>(address)); }
};

// libwherry.so, its interposers, libwherry_io.so and this library.
std::array<Code, 8> own_code;
std::size_t own_count = 0;
bool has_allocator = false;

// The loaded segment that has this address; empty: there is none.
struct Search {
  std::uintptr_t address = 0;
  Code found;
};

int find(dl_phdr_info* module, std::size_t, void* given) {
  auto& search = *static_cast<Search*>(given);
  for (int i = 0; i < module->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = module->dlpi_phdr[i];
    const std::uintptr_t start = module->dlpi_addr + segment.p_vaddr;
    const Code code{start, start + segment.p_memsz};
    if (segment.p_type != PT_LOAD || !code.has(search.address)) continue;
    search.found = code;
    return 1;
  }
  return 0;
}

Code code_around(const void* address) {
  Search search{reinterpret_cast<std::uintptr_t>(address), {}};
  ::dl_iterate_phdr(find, &search);
  return search.found;
}

// Whether the function is there. A program that is at fixed addresses has a stub for a library's
// function, which has the function's address for all modules.
bool is_defined_at(const void* function) {
  Dl_info module{};
  const ElfW(Sym)* symbol = nullptr;
  return ::dladdr1(function, &module, const_cast<void**>(reinterpret_cast<const void**>(&symbol)),
                   RTLD_DL_SYMENT) != 0 &&
         symbol != nullptr && symbol->st_shndx != SHN_UNDEF;
}

int note(dl_phdr_info* module, std::size_t, void*) {
  const char* const slash = std::strrchr(module->dlpi_name, '/');
  const char* const name = slash != nullptr ? slash + 1 : module->dlpi_name;
  if (std::strncmp(name, "libwherry", std::strlen("libwherry")) != 0) return 0;
  for (int i = 0; i < module->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = module->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0 || own_count == own_code.size())
      continue;
    const std::uintptr_t start = module->dlpi_addr + segment.p_vaddr;
    own_code[own_count++] = {start, start + segment.p_memsz};
  }
  return 0;
}

}  // namespace

bool is_own_code(const void* address) {
  for (std::size_t i = 0; i < own_count; ++i)
    if (own_code[i].has(address)) return true;
  return false;
}

bool program_has_allocator() {
  return has_allocator;
}

void find_own_code() {
  ::dl_iterate_phdr(note, nullptr);
  const void* const first = ::dlsym(RTLD_DEFAULT, "malloc");
  const void* const next = ::dlsym(RTLD_NEXT, "malloc");
  has_allocator = (!is_own_code(first) && is_defined_at(first)) ||
                  !code_around(next).has(::dlsym(RTLD_NEXT, "gnu_get_libc_version"));
}

}  // namespace wherry::run
