#include "io/own_code.h"

#include <link.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace wherry::io {
namespace {

struct Code {
  std::uintptr_t start = 0;
  std::uintptr_t end = 0;
};

// libwherry.so, its interposers, libwherry_io.so and libwherry_run.so.
std::array<Code, 8> own_code;
std::size_t own_count = 0;

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

void find_own_code() {
  ::dl_iterate_phdr(note, nullptr);
}

}  // namespace wherry::io
