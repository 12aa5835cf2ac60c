#include "run/own_calls.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/auxv.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace wherry::run {
namespace {

struct Code {
  std::uintptr_t start = 0;
  std::uintptr_t end = 0;
};

// The C library and the dynamic loader have one executable segment each.
std::array<Code, 2> c_library;
std::size_t c_library_count = 0;
Malloc serving = Malloc::of_c_library;

struct CLibraryAt {
  std::uintptr_t c_library = 0;
  std::uintptr_t loader = 0;
};

int note_c_library(dl_phdr_info* module, std::size_t, void* given) {
  const auto& at = *static_cast<const CLibraryAt*>(given);
  if (module->dlpi_addr != at.c_library && module->dlpi_addr != at.loader) return 0;
  for (int i = 0; i < module->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = module->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0 ||
        c_library_count == c_library.size())
      continue;
    const std::uintptr_t start = module->dlpi_addr + segment.p_vaddr;
    c_library[c_library_count++] = {start, start + segment.p_memsz};
  }
  return 0;
}

// The start of the module that has this code.
const void* module_of(const void* code) {
  Dl_info module{};
  return ::dladdr(code, &module) != 0 ? module.dli_fbase : nullptr;
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

}  // namespace

bool is_c_library(const void* address) {
  const auto where = reinterpret_cast<std::uintptr_t>(address);
  for (std::size_t i = 0; i < c_library_count; ++i)
    if (where >= c_library[i].start && where < c_library[i].end) return true;
  return false;
}

Malloc program_malloc() {
  return serving;
}

void find_code() {
  io::find_own_code();
  const void* const c_library_module = module_of(::dlsym(RTLD_NEXT, "gnu_get_libc_version"));
  CLibraryAt at{reinterpret_cast<std::uintptr_t>(c_library_module), ::getauxval(AT_BASE)};
  ::dl_iterate_phdr(note_c_library, &at);
  const void* const first = ::dlsym(RTLD_DEFAULT, "malloc");
  if (!is_own_code(first) && is_defined_at(first))
    serving = Malloc::before_this_library;
  else if (module_of(::dlsym(RTLD_NEXT, "malloc")) != c_library_module)
    serving = Malloc::of_another_library;
}

}  // namespace wherry::run
