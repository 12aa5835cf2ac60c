#include "os/memory/loader_memory.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "base/page.h"
#include "os/arch/cpu.h"

extern "C" void* __libc_stack_end;  // set by the dynamic loader: the start of the first frame

namespace wherry::impl {
namespace {

AddressRange pages_around(const void* start, std::size_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(start);
  return {round_down(address, page_size), round_up(address + bytes, page_size)};
}

void add_segments(const dl_phdr_info& module, std::vector<AddressRange>& ranges) {
  for (int i = 0; i < module.dlpi_phnum; ++i) {
    const auto& segment = module.dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    const auto* start = reinterpret_cast<const void*>(module.dlpi_addr + segment.p_vaddr);
    ranges.push_back(pages_around(start, segment.p_memsz));
  }
}

int visit_segments(dl_phdr_info* module, std::size_t, void* ranges) {
  add_segments(*module, *static_cast<std::vector<AddressRange>*>(ranges));
  return 0;
}

// The dynamic loader's anonymous memory cannot be distinguished from the application's once Linux
// has merged neighbouring mappings. When this library is loaded, that memory is still small and
// separate, except for a module's zeroed variables, which may be large and adjacent.
std::vector<AddressRange> small_anonymous_mappings() {
  constexpr std::size_t small = 1 << 20;
  std::vector<AddressRange> segments;
  ::dl_iterate_phdr(visit_segments, &segments);
  std::vector<AddressRange> found;
  const std::string text = read_address_map();
  std::string_view rest = text;
  while (const auto mapping = next_mapping(rest)) {
    if (mapping->inode != 0 || !mapping->name.empty() || !mapping->accessible()) continue;
    for_each_uncovered(mapping->range, segments, [&](AddressRange part) {
      if (part.size() < small) found.push_back(part);
      return 0;
    });
  }
  return found;
}

// Recorded once, before main() or during the dlopen() of this library; never changed.
const std::vector<AddressRange> at_load_time = small_anonymous_mappings();

// The size of the module's thread-local variables.
std::size_t tls_bytes(const dl_phdr_info& module) {
  for (int i = 0; i < module.dlpi_phnum; ++i)
    if (module.dlpi_phdr[i].p_type == PT_TLS) return module.dlpi_phdr[i].p_memsz;
  return 0;
}

struct ModuleWalk {
  std::vector<AddressRange>& ranges;
  std::uintptr_t thread = 0;
  AddressRange variables{thread, thread};  // thread-local ones
  bool list_done = false;
};

// Runs under the loader's lock, so the list of modules does not change.
int visit_module(dl_phdr_info* info, std::size_t, void* pointer) {
  ModuleWalk& walk = *static_cast<ModuleWalk*>(pointer);
  add_segments(*info, walk.ranges);
  // Thread-local blocks further away than this are on the heap.
  constexpr std::uintptr_t static_block_limit = 1 << 20;
  const auto tls = reinterpret_cast<std::uintptr_t>(info->dlpi_tls_data);
  if (tls != 0 && std::max(tls, walk.thread) - std::min(tls, walk.thread) < static_block_limit) {
    walk.variables.start = std::min(walk.variables.start, tls);
    walk.variables.end = std::max(walk.variables.end, tls + tls_bytes(*info));
  }
  if (walk.list_done) return 0;
  walk.list_done = true;
  for (const link_map* module = _r_debug.r_map; module != nullptr; module = module->l_next) {
    constexpr std::size_t private_part = 2048;  // the loader's private fields after the public ones
    walk.ranges.push_back(pages_around(module, private_part));
    walk.ranges.push_back(
        pages_around(module->l_name, std::string_view(module->l_name).size() + 1));
  }
  return 0;
}

}  // namespace

std::vector<AddressRange> ranges_needed_to_run() {
  std::vector<AddressRange> ranges = at_load_time;
  const auto thread = reinterpret_cast<std::uintptr_t>(__builtin_thread_pointer());
  ModuleWalk walk{ranges, thread};
  ::dl_iterate_phdr(visit_module, &walk);

  const AddressRange own = thread_memory(walk.variables);
  ranges.push_back(pages_around(reinterpret_cast<const void*>(own.start), own.size()));

  // Linux placed the command line and the environment at the top of the main stack. Whole pages
  // only, because the first frames of main() may share a page with the start of the block. The
  // stack's end bounds the range.
  constexpr std::size_t strings_limit = 16 << 20;
  const std::uintptr_t strings =
      round_up(reinterpret_cast<std::uintptr_t>(__libc_stack_end), page_size);
  ranges.push_back({strings, strings + strings_limit});
  return ranges;
}

AddressRange code_of_c_library() {
  AddressRange code;
  ::dl_iterate_phdr(
      [](dl_phdr_info* module, std::size_t, void* pointer) {
        const auto inside = reinterpret_cast<std::uintptr_t>(::gnu_get_libc_version);
        for (int i = 0; i < module->dlpi_phnum; ++i) {
          const auto& segment = module->dlpi_phdr[i];
          if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
          const auto* start = reinterpret_cast<const void*>(module->dlpi_addr + segment.p_vaddr);
          const AddressRange pages = pages_around(start, segment.p_memsz);
          if (!pages.contains(inside)) continue;
          // The program's own module has no name: the C library is linked into it.
          if (*module->dlpi_name != '\0') *static_cast<AddressRange*>(pointer) = pages;
          return 1;
        }
        return 0;
      },
      &code);
  return code;
}

void undo_changes_of_code(AddressRange code) {
  // The C library's madvise() may be among what was changed. The pages are private, so those that
  // were written are copies, which Linux drops. An error leaves the code as it is.
  if (!code.empty()) ::syscall(SYS_madvise, code.start, code.size(), MADV_DONTNEED);
}

bool uses_standard_malloc() {
  Dl_info of_malloc{};
  Dl_info of_library{};
  void* allocate = ::dlsym(RTLD_DEFAULT, "malloc");
  return allocate != nullptr && ::dladdr(allocate, &of_malloc) != 0 &&
         ::dladdr(reinterpret_cast<void*>(::gnu_get_libc_version), &of_library) != 0 &&
         of_malloc.dli_fbase == of_library.dli_fbase;
}

bool runs_under_sanitizer() {
  for (const char* name : {"__asan_init", "__tsan_init", "__msan_init", "__hwasan_init"}) {
    if (::dlsym(RTLD_DEFAULT, name) != nullptr) return true;
  }
  return false;
}

}  // namespace wherry::impl
