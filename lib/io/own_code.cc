#include "io/own_code.h"

#include <cstring>

namespace wherry::io {
namespace {

// The code of libwherry.so, its interposers, libwherry_io.so and libwherry_run.so.
constinit ModuleCode own_code;

int note(dl_phdr_info* module, std::size_t, void*) {
  const char* const slash = std::strrchr(module->dlpi_name, '/');
  const char* const name = slash != nullptr ? slash + 1 : module->dlpi_name;
  if (std::strncmp(name, "libwherry", std::strlen("libwherry")) == 0) own_code.add(*module);
  return 0;
}

}  // namespace

void ModuleCode::add(const dl_phdr_info& module) {
  for (int i = 0; i < module.dlpi_phnum && count_ < segments_.size(); ++i) {
    const ElfW(Phdr)& segment = module.dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    const std::uintptr_t start = module.dlpi_addr + segment.p_vaddr;
    segments_[count_++] = {start, start + segment.p_memsz};
  }
}

bool ModuleCode::contains(const void* address) const {
  const auto where = reinterpret_cast<std::uintptr_t>(address);
  for (std::size_t i = 0; i < count_; ++i)
    if (where >= segments_[i].start && where < segments_[i].end) return true;
  return false;
}

bool is_own_code(const void* address) {
  return own_code.contains(address);
}

void find_own_code() {
  ::dl_iterate_phdr(note, nullptr);
}

}  // namespace wherry::io
