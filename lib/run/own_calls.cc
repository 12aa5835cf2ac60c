#include "run/own_calls.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/auxv.h>

#include <cstddef>
#include <cstdint>

namespace wherry::run {
namespace {

constinit io::ModuleCode c_library;  // the dynamic loader included
Malloc serving = Malloc::of_c_library;

struct CLibraryAt {
  std::uintptr_t c_library = 0;
  std::uintptr_t loader = 0;
};

int note_c_library(dl_phdr_info* module, std::size_t, void* given) {
  const auto& at = *static_cast<const CLibraryAt*>(given);
  if (module->dlpi_addr == at.c_library || module->dlpi_addr == at.loader) c_library.add(*module);
  return 0;
}

// Returns the start of the module that contains this code.
const void* module_of(const void* code) {
  Dl_info module{};
  return ::dladdr(code, &module) != 0 ? module.dli_fbase : nullptr;
}

// Whether the function is defined at this address. A program at fixed addresses has a stub for a
// library's function, whose address all modules take as the function's.
bool is_defined_at(const void* function) {
  Dl_info module{};
  const ElfW(Sym)* symbol = nullptr;
  return ::dladdr1(function, &module, const_cast<void**>(reinterpret_cast<const void**>(&symbol)),
                   RTLD_DL_SYMENT) != 0 &&
         symbol != nullptr && symbol->st_shndx != SHN_UNDEF;
}

}  // namespace

bool is_c_library(const void* address) {
  return c_library.contains(address);
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
