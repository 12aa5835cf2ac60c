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
};

// libwherry.so, its interposers, libwherry_io.so and this library.
std::array<Code, 8> own_code;
std::size_t own_count = 0;
bool has_allocator = false;

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
  const auto where = reinterpret_cast<std::uintptr_t>(address);
  for (std::size_t i = 0; i < own_count; ++i)
    if (where >= own_code[i].start && where < own_code[i].end) return true;
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
                  module_of(next) != module_of(::dlsym(RTLD_NEXT, "gnu_get_libc_version"));
}

}  // namespace wherry::run
