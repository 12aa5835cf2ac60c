#include "os/memory/address_mask.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <string_view>

#include "base/page.h"
#include "os/arch/cpu.h"
#include "os/files/file_io.h"
#include "os/signals/kernel_signals.h"

namespace wherry::impl {
namespace {

constexpr std::size_t large = 1 << 20;

// The layout of malloc's further arenas in the C library: heaps aligned to their maximum size, each
// beginning with this header.
constexpr std::uintptr_t heap_alignment = 64 << 20;
struct HeapHeader {
  std::uintptr_t arena;
  std::uintptr_t previous;
  std::size_t size;
  std::size_t accessible;
};

// Returns the accessible part of the heap that begins at `start`; empty if no heap begins there.
AddressRange heap_at(std::uintptr_t start) {
  HeapHeader header{};
  // Linux copies the header, because a read could fault: a stack's guard page (MADV_GUARD_INSTALL),
  // which the address map does not show, may be there.
  const std::span from(reinterpret_cast<const std::byte*>(start), sizeof header);
  if (copy_memory(std::as_writable_bytes(std::span(&header, 1)), from) != sizeof header) return {};
  constexpr std::uintptr_t arena_place = 256;  // directly after the first heap's header
  const bool plausible = header.arena % heap_alignment >= sizeof(HeapHeader) &&
                         header.arena % heap_alignment < arena_place &&
                         header.previous % heap_alignment == 0 && header.size > 0 &&
                         header.size <= header.accessible && header.accessible <= heap_alignment &&
                         header.accessible % page_size == 0;
  return plausible ? AddressRange{start, start + header.accessible} : AddressRange{};
}

// Calls hide(part) for each part that neither `kept` nor a heap of malloc covers. Stops at the
// first nonzero result and returns it. Requires: the range is readable, or contains no heap.
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
  // ENOMEM: the range is above what this machine can address, so nothing can be mapped there.
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

// A list in memory that the caller provides, because nothing may be allocated.
class RangeList {
 public:
  explicit RangeList(std::span<AddressRange> room) : room_(room) {}

  // Any thread may call it, and a signal handler. Returns false if the list is full.
  bool add(AddressRange range) {
    const std::size_t place = count_++;
    if (place >= room_.size()) return false;
    room_[place] = range;
    return true;
  }
  std::span<const AddressRange> all() const {
    return room_.first(std::min<std::size_t>(count_, room_.size()));
  }

 private:
  std::span<AddressRange> room_;
  std::atomic<std::size_t> count_ = 0;
};

struct Touching {
  std::span<const AddressRange> hidden;
  RangeList& touched;
};
// Set while find_touched_pages() runs.
std::atomic<Touching*> touching = nullptr;

void permit_page(int signal, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  const std::uintptr_t page = round_down(address, page_size);
  Touching& now = *touching.load();
  const bool is_hidden = std::ranges::any_of(
      now.hidden, [&](const AddressRange& part) { return part.contains(address); });
  if (is_hidden && now.touched.add({page, page + page_size}) &&
      ::mprotect(reinterpret_cast<void*>(page), page_size, PROT_READ | PROT_WRITE) == 0)
    return;
  struct sigaction standard {};  // the access is repeated, and ends the process
  standard.sa_handler = SIG_DFL;
  kernel_sigaction(signal, &standard, nullptr);
}

// Makes the hidden memory inaccessible, calls the function, and lists the pages that it touched.
// After an error the process cannot go on.
int find_touched_pages(std::span<const AddressRange> hidden, void (*touch)(), RangeList& touched) {
  Touching now{hidden, touched};
  touching = &now;
  struct sigaction permit {};
  permit.sa_sigaction = permit_page;
  permit.sa_flags = SA_SIGINFO;
  struct sigaction before {};
  if (kernel_sigaction(SIGSEGV, &permit, &before) != 0) return errno;
  sigset_t segv;
  sigset_t blocked;
  ::sigemptyset(&segv);
  ::sigaddset(&segv, SIGSEGV);
  if (const int error = ::pthread_sigmask(SIG_UNBLOCK, &segv, &blocked)) return error;
  for (const AddressRange& part : hidden)
    if (::mprotect(reinterpret_cast<void*>(part.start), part.size(), PROT_NONE) != 0) return errno;
  touch();
  if (const int error = ::pthread_sigmask(SIG_SETMASK, &blocked, nullptr)) return error;
  if (kernel_sigaction(SIGSEGV, &before, nullptr) != 0) return errno;
  touching = nullptr;
  return 0;
}

// Requires: `room` is zero pages, outside of what is hidden.
int hide_memory(std::string_view map, const AddressMaskOptions& options,
                std::span<AddressRange> room) {
  RangeList hidden(room.first(room.size() / 2));
  while (const auto mapping = next_mapping(map)) {
    if (!is_hidden(*mapping)) continue;
    const int error = for_each_hidden_part(
        *mapping, options.kept, [&](AddressRange part) { return hidden.add(part) ? 0 : ENOMEM; });
    if (error != 0) return error;
  }
  RangeList touched(room.subspan(room.size() / 2));
  if (options.touch != nullptr)
    if (const int error = find_touched_pages(hidden.all(), options.touch, touched)) return error;
  for (const AddressRange& part : hidden.all()) {
    // The memory is replaced and not just protected, so that it is no longer shared with the host,
    // whose writes there then do not have to copy pages.
    const int error = for_each_uncovered(
        part, touched.all(), [](AddressRange rest) { return make_inaccessible(rest, MAP_FIXED); });
    if (error != 0) return error;
  }
  if (options.touched != nullptr)
    options.touched->insert(options.touched->end(), touched.all().begin(), touched.all().end());
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
  // The text of the map and the lists are stored in the window while it is processed: no other
  // address is known to be free.
  constexpr std::size_t mappings_max = 65530;
  constexpr std::size_t text_bytes = 16 << 20;  // 250 bytes for each mapping
  constexpr std::size_t ranges = 8 * mappings_max;
  constexpr std::size_t bytes = text_bytes + round_up(ranges * sizeof(AddressRange), page_size);
  void* const place =
      ::mmap(reinterpret_cast<void*>(options.window.start), bytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (place == MAP_FAILED) return errno;
  auto* const text = static_cast<char*>(place);
  const auto read_map = [&] { return read_address_map(text, text_bytes); };
  auto map = read_map();
  int error = map ? 0 : ENOMEM;
  if (error == 0 && options.hide_memory && !hides(*map, options.kept, options.heap_block)) {
    error =
        hide_memory(*map, options, {reinterpret_cast<AddressRange*>(text + text_bytes), ranges});
    // `touch` may have mapped memory.
    if (error == 0 && options.touch != nullptr && !(map = read_map())) error = ENOMEM;
  }
  if (error == 0) error = fill_gaps(*map, options);
  ::munmap(place, bytes);
  return error;
}

}  // namespace wherry::impl
