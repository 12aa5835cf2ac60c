#include "os/process/start_block.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/page.h"

extern "C" void* __libc_stack_end;  // set by the dynamic loader: the start of the block

namespace wherry::impl {
namespace {

using AuxiliaryEntry = ElfW(auxv_t);

// The block's tables follow one another: argc, argv, environment, auxiliary vector.
std::uintptr_t end_of_tables(const void* block) {
  auto* word = static_cast<const std::uintptr_t*>(block);
  word += 1 + *word + 1;  // argc, the arguments, a null pointer
  while (*word != 0) ++word;
  auto* entry = reinterpret_cast<const AuxiliaryEntry*>(word + 1);
  while (entry->a_type != AT_NULL) ++entry;
  return reinterpret_cast<std::uintptr_t>(entry + 1);
}

struct LibrarySearch {
  std::uintptr_t loader = 0;
  std::uintptr_t c_library = 0;
  std::vector<StartBlock::Library> found;
};

int visit_module(dl_phdr_info* info, std::size_t, void* pointer) {
  auto& search = *static_cast<LibrarySearch*>(pointer);
  if (info->dlpi_addr == 0 ||
      (info->dlpi_addr != search.loader && info->dlpi_addr != search.c_library))
    return 0;
  AddressRange read_only;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_GNU_RELRO) continue;
    const std::uintptr_t start = info->dlpi_addr + segment.p_vaddr;
    // Rounded like the loader does.
    read_only = {round_down(start, page_size), round_down(start + segment.p_memsz, page_size)};
  }
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) == 0) continue;
    const std::uintptr_t start = info->dlpi_addr + segment.p_vaddr;
    search.found.push_back(
        {{round_up(start, sizeof(void*)), round_down(start + segment.p_memsz, sizeof(void*))},
         read_only});
  }
  return 0;
}

AddressRange storage_of(const auto& variable) {
  const auto start = reinterpret_cast<std::uintptr_t>(&variable);
  return {start, start + sizeof variable};
}

}  // namespace

StartBlock::StartBlock() {
  const auto start = reinterpret_cast<std::uintptr_t>(__libc_stack_end);
  // A pointer to the block's very first byte tells where the stack is, not what the block contains,
  // so such pointers are not redirected.
  original_ = {start + 1, std::max(end_of_tables(__libc_stack_end), round_up(start, page_size))};
  const auto* bytes = reinterpret_cast<const std::byte*>(original_.start);
  // The copy keeps the alignment of the block: it lacks the first byte, so it too starts at an odd
  // address.
  copy_.resize(1 + original_.size());
  std::memcpy(copy_.data() + 1, bytes, original_.size());
  const auto moved = reinterpret_cast<std::uintptr_t>(copy_.data());
  redirect({moved + sizeof(void*), round_down(moved + copy_.size(), sizeof(void*))});

  LibrarySearch search;
  search.loader = ::getauxval(AT_BASE);
  Dl_info library{};
  if (::dladdr(reinterpret_cast<void*>(::gnu_get_libc_version), &library) != 0)
    search.c_library = reinterpret_cast<std::uintptr_t>(library.dli_fbase);
  ::dl_iterate_phdr(visit_module, &search);
  libraries_ = std::move(search.found);
}

void StartBlock::redirect(AddressRange storage) const {
  const auto moved = reinterpret_cast<std::uintptr_t>(copy_.data()) + 1;
  auto* word = reinterpret_cast<std::uintptr_t*>(storage.start);
  auto* end = reinterpret_cast<std::uintptr_t*>(storage.end);
  for (; word < end; ++word) {
    if (original_.contains(*word)) *word = *word - original_.start + moved;
  }
}

int StartBlock::use_copy() const {
  for (const Library& library : libraries_) {
    void* protected_part = reinterpret_cast<void*>(library.read_only.start);
    const std::size_t bytes = library.read_only.empty() ? 0 : library.read_only.size();
    if (bytes != 0 && ::mprotect(protected_part, bytes, PROT_READ | PROT_WRITE) != 0) return errno;
    redirect(library.writable);
    if (bytes != 0 && ::mprotect(protected_part, bytes, PROT_READ) != 0) return errno;
  }
  // The linker may have placed these variables in the program (copy relocations).
  redirect(storage_of(program_invocation_name));
  redirect(storage_of(program_invocation_short_name));
  return 0;
}

}  // namespace wherry::impl
