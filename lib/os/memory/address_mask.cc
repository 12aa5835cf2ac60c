#include "os/memory/address_mask.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "base/page.h"
#include "os/arch/cpu.h"

namespace wherry::impl {
namespace {

constexpr std::size_t large = 1 << 20;

// The layout of the C library's further arenas: heaps aligned to their maximum size, each beginning
// with this header.
constexpr std::uintptr_t heap_alignment = 64 << 20;
struct HeapHeader {
  std::uintptr_t arena;
  std::uintptr_t previous;
  std::size_t size;
  std::size_t accessible;
};

// Returns the accessible part of the heap that begins at `start`; empty if no heap begins there.
AddressRange heap_at(std::uintptr_t start) {
  const auto& header = *reinterpret_cast<const HeapHeader*>(start);
  constexpr std::uintptr_t arena_place = 256;  // directly after the first heap's header
  const bool plausible = header.arena % heap_alignment >= sizeof(HeapHeader) &&
                         header.arena % heap_alignment < arena_place &&
                         header.previous % heap_alignment == 0 && header.size > 0 &&
                         header.size <= header.accessible && header.accessible <= heap_alignment &&
                         header.accessible % page_size == 0;
  return plausible ? AddressRange{start, start + header.accessible} : AddressRange{};
}

// Like for_each_uncovered(), with malloc's heaps covered too. Requires: the range is readable, or
// contains no heap.
template <typename F>
int for_each_hidden_part(const MappedRange& mapping, std::span<const AddressRange> kept, F hide) {
  return for_each_uncovered(mapping.range, kept, [&](AddressRange part) {
    std::uintptr_t heap = round_up(part.start, heap_alignment);
    while (mapping.readable && !mapping.shared && heap < part.end) {
      const AddressRange found = heap_at(heap);
      if (!found.empty()) {
        if (heap > part.start)
          if (const int error = hide(AddressRange{part.start, heap})) return error;
        part.start = std::min(found.end, part.end);
      }
      heap += heap_alignment;
    }
    return part.empty() ? 0 : hide(part);
  });
}

int make_inaccessible(AddressRange range, int placement) {
  void* place = ::mmap(reinterpret_cast<void*>(range.start), range.size(), PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | placement, -1, 0);
  if (place != MAP_FAILED) return 0;
  // The range is above what this machine can address, so nothing can be mapped there.
  return range.end == address_space_end() && errno == ENOMEM ? 0 : errno;
}

int fill_gap(AddressRange gap, const AddressMaskOptions& options) {
  return for_each_uncovered(gap, {&options.window, 1}, [](AddressRange part) {
    return make_inaccessible(part, MAP_FIXED_NOREPLACE);
  });
}

int fill_gaps(std::string_view map, const AddressMaskOptions& options) {
  // Most systems forbid mappings below this address, so a failure does not matter.
  constexpr std::uintptr_t usual_minimum = 64 << 10;
  static_cast<void>(make_inaccessible({page_size, usual_minimum}, MAP_FIXED_NOREPLACE));
  std::uintptr_t end = usual_minimum;
  while (const auto mapping = next_mapping(map)) {
    if (mapping->range.start >= address_space_end()) break;
    if (const int error = fill_gap({end, mapping->range.start}, options)) return error;
    end = std::max(end, mapping->range.end);
  }
  return fill_gap({end, address_space_end()}, options);
}

bool hides(std::string_view map, std::span<const AddressRange> kept, const void* block) {
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  const auto mapping = find_mapping(map, address);
  if (!mapping || !is_hidden(*mapping)) return false;
  return for_each_hidden_part(*mapping, kept, [&](AddressRange part) {
           return part.contains(address) ? 1 : 0;
         }) != 0;
}

int hide_memory(std::string_view map, std::span<const AddressRange> kept) {
  while (const auto mapping = next_mapping(map)) {
    if (!is_hidden(*mapping)) continue;
    // A new mapping and not a protection: it also gives up the shared copy, so the host's writes
    // there do not have to copy pages.
    const int error = for_each_hidden_part(
        *mapping, kept, [](AddressRange part) { return make_inaccessible(part, MAP_FIXED); });
    if (error != 0) return error;
  }
  return 0;
}

}  // namespace

bool is_hidden(const MappedRange& mapping) {
  if (mapping.name == "[stack]") return true;
  if (!mapping.accessible() || mapping.executable || mapping.range.size() < large) return false;
  if (mapping.shared) return mapping.writable;
  const bool anonymous = mapping.name.empty() || mapping.name.starts_with("[anon:") ||
                         mapping.name.starts_with("/anon_hugepage");
  return anonymous;
}

int open_window(AddressRange window, AddressRange stack, std::size_t guard) {
  const std::uintptr_t taken = stack.start - guard;
  if (::munmap(reinterpret_cast<void*>(window.start), taken - window.start) != 0) return errno;
  if (stack.end < window.end &&
      ::munmap(reinterpret_cast<void*>(stack.end), window.end - stack.end) != 0)
    return errno;
  return ::mprotect(reinterpret_cast<void*>(stack.start), stack.size(), PROT_READ | PROT_WRITE) == 0
             ? 0
             : errno;
}

int mask_address_space(const AddressMaskOptions& options) {
  // The text of the map is stored in the window while it is processed: no other address is known to
  // be free.
  constexpr std::size_t text_bytes = 16 << 20;  // 250 bytes for each of at most 65530 mappings
  const AddressRange text_place{options.window.start, options.window.start + text_bytes};
  void* text = ::mmap(reinterpret_cast<void*>(text_place.start), text_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (text == MAP_FAILED) return errno;
  const auto map = read_address_map(static_cast<char*>(text), text_bytes);
  int error = map ? 0 : ENOMEM;
  if (map) {
    const auto kept = options.kept;
    if (options.hide_memory && !hides(*map, kept, options.heap_block))
      error = hide_memory(*map, kept);
    if (error == 0) error = fill_gaps(*map, options);
  }
  ::munmap(text, text_bytes);
  return error;
}

}  // namespace wherry::impl
