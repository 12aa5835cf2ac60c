// mmap and its kin: large private anonymous mappings are managed memory. Before the program does
// something that managed memory cannot do (other rights, addresses that the program chooses, locked
// pages, a memory policy), they become ordinary private memory.

// With 64-bit offsets, glibc's headers make mmap another name for mmap64.
#undef _FILE_OFFSET_BITS

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "os/memory/address_map.h"
#include "run/managed_regions.h"
#include "run/own_calls.h"
#include "run/real.h"
#include "run/session.h"
#include "run/settings.h"

namespace wherry::run {
namespace {

using Range = ManagedRegions::Range;

ManagedRegions& regions() {
  return ManagedRegions::instance();
}

using Mmap = void*(void*, std::size_t, int, int, int, off_t);
using Munmap = int(void*, std::size_t);
using Mremap = void*(void*, std::size_t, std::size_t, int, void*);

// Returns the pages in regions, managed or private, that a call concerns, or nullopt if there are
// none or the program did not make the call; then the C library gets the call.
std::optional<Range> pages_of_program(const void* caller, const void* memory, std::size_t bytes) {
  const auto start = reinterpret_cast<std::uintptr_t>(memory);
  const Range range{start, start + round_up(bytes, page_bytes)};
  if (start % page_bytes != 0 || range.end <= start || !regions().may_overlap(range) ||
      OwnCalls::active() || is_own_code(caller) || !regions().overlaps(range))
    return std::nullopt;
  return range;
}

// Like pages_of_program(); mlock rounds the start down.
std::optional<Range> pages_to_lock(const void* caller, const void* memory, std::size_t bytes) {
  const std::size_t in_page = reinterpret_cast<std::uintptr_t>(memory) % page_bytes;
  return pages_of_program(caller, static_cast<const std::byte*>(memory) - in_page, bytes + in_page);
}

// Makes the range private, and then has Linux do call(). Returns `failure` if there is not enough
// memory for that.
template <typename Result, typename Call>
Result on_private_memory(std::optional<Range> range, Reason reason, Result failure,
                         const Call& call) {
  if (range && !regions().make_private(*range, reason)) {
    errno = ENOMEM;
    return failure;
  }
  return call();
}

// Makes the range private for a call by which the program places other memory there.
template <typename Call>
void* in_place_of(const void* caller, void* place, std::size_t bytes, const Call& call) {
  const auto start = reinterpret_cast<std::uintptr_t>(place);
  const Range whole{start, start + round_up(bytes, page_bytes)};
  const auto range = pages_of_program(caller, place, bytes);
  // Addresses of the arena that the program has given up may be allocated again, so other memory
  // must not be placed there.
  const bool is_free_arena = !range && has_started() && regions().may_overlap(whole);
  if (is_free_arena || (range && !regions().make_private(*range, Reason::replacement))) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  void* const result = call();
  if (range && result == place) regions().note_mapped(*range);
  return result;
}

// Makes the call for the parts of the range that the program still has, and fails as Linux does
// because of the holes. An error of a part other than ENOMEM comes first.
template <typename Call>
int around_holes(Range range, const Call& call) {
  for (const Range& part : regions().pieces_in(range))
    if (call(part) != 0 && errno != ENOMEM) return -1;
  errno = ENOMEM;
  return -1;
}

bool may_be_managed(void* place, std::size_t bytes, int protection, int flags, off_t offset) {
  constexpr int kind = MAP_PRIVATE | MAP_ANONYMOUS;
  // MAP_NORESERVE changes nothing, because managed memory never reserves swap space. jemalloc sets
  // it for all of its memory.
  constexpr int allowed = MAP_POPULATE | MAP_NORESERVE;
  const Settings* const found = settings();
  return place == nullptr && found != nullptr && bytes >= found->min_bytes &&
         offset % static_cast<off_t>(page_bytes) == 0 && protection == (PROT_READ | PROT_WRITE) &&
         (flags & ~allowed) == kind && is_running();
}

void* map(const void* caller, void* place, std::size_t bytes, int protection, int flags, int file,
          off_t offset) {
  const auto next = [&] {
    return Real<"mmap", Mmap>::get()(place, bytes, protection, flags, file, offset);
  };
  if (OwnCalls::active() || is_own_code(caller)) return next();
  if (may_be_managed(place, bytes, protection, flags, offset)) {
    void* const memory = regions().allocate_mapping(bytes);
    if (memory == nullptr) return next();
    if ((flags & MAP_POPULATE) != 0) std::memset(memory, 0, bytes);
    return memory;
  }
  if ((flags & MAP_FIXED) == 0) return next();
  return in_place_of(caller, place, bytes, next);
}

int unmap(Range range) {
  std::vector<Range> outside;
  regions().unmap(range, outside);
  int result = 0;
  for (const Range& part : outside)
    if (Real<"munmap", Munmap>::get()(reinterpret_cast<void*>(part.start), part.bytes()) != 0)
      result = -1;
  return result;
}

// Copies the contents to other memory, of size `bytes`. Requires: the range is readable.
void* copy_elsewhere(Range old, std::size_t bytes) {
  void* moved = regions().allocate_grown_mapping(bytes);
  if (moved == nullptr)
    moved = Real<"mmap", Mmap>::get()(nullptr, bytes, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (moved == MAP_FAILED) return MAP_FAILED;
  std::memcpy(moved, reinterpret_cast<void*>(old.start), old.bytes());
  unmap(old);
  return moved;
}

// Whether the range is private memory that the program may read and write. Linux may have several
// mappings of it, where an ordinary program would have one: memory that has become private does not
// merge with its neighbours.
bool is_plain(Range range) {
  const OwnCalls own;
  const std::string text = impl::read_address_map();
  std::uintptr_t at = range.start;
  while (at < range.end) {
    const auto mapping = impl::find_mapping(text, at);
    if (!mapping || !mapping->readable || !mapping->writable || mapping->executable ||
        mapping->shared || mapping->inode != 0)
      return false;
    at = mapping->range.end;
  }
  return true;
}

// Does mremap for a managed range.
void* remap(Range old, std::size_t bytes, int flags) {
  void* const memory = reinterpret_cast<void*>(old.start);
  if (bytes <= old.bytes()) {
    if (bytes < old.bytes()) unmap({old.start + bytes, old.end});
    return memory;
  }
  if (regions().grow_mapping(old, bytes)) return memory;
  if ((flags & MREMAP_MAYMOVE) == 0) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return copy_elsewhere(old, bytes);
}

// Does what madvise does, for managed memory. Returns nullopt if managed memory cannot do it.
std::optional<int> advise(Range range, int advice) {
  switch (advice) {
    case MADV_DONTNEED:
    case MADV_FREE:
      // free_pages() returns false if another thread has just made the memory private.
      return regions().free_pages(range) ? std::optional(0) : std::nullopt;
    case MADV_NORMAL:
    case MADV_RANDOM:
    case MADV_SEQUENTIAL:
    case MADV_WILLNEED:
    case MADV_HUGEPAGE:
    case MADV_NOHUGEPAGE:
    case MADV_DONTDUMP:
    case MADV_DODUMP:
    case MADV_MERGEABLE:
    case MADV_UNMERGEABLE:
      return 0;  // hints, about what Wherry decides itself
    default:
      return std::nullopt;
  }
}

int next_madvise(void* memory, std::size_t bytes, int advice) {
  return Real<"madvise", int(void*, std::size_t, int)>::get()(memory, bytes, advice);
}

int advise_piece(Range piece, int advice) {
  if (regions().is_managed(piece))
    if (const auto result = advise(piece, advice)) return *result;
  if (!regions().make_private(piece, Reason::advice)) {
    errno = ENOMEM;
    return -1;
  }
  return next_madvise(reinterpret_cast<void*>(piece.start), piece.bytes(), advice);
}

}  // namespace
}  // namespace wherry::run

using namespace wherry::run;

#pragma GCC visibility push(default)
extern "C" {

void* mmap(void* place, std::size_t bytes, int protection, int flags, int file,
           off_t offset) noexcept {
  return map(__builtin_return_address(0), place, bytes, protection, flags, file, offset);
}

void* mmap64(void* place, std::size_t bytes, int protection, int flags, int file,
             off64_t offset) noexcept {
  return map(__builtin_return_address(0), place, bytes, protection, flags, file, offset);
}

int munmap(void* memory, std::size_t bytes) noexcept {
  const auto range = pages_of_program(__builtin_return_address(0), memory, bytes);
  return range ? unmap(*range) : Real<"munmap", Munmap>::get()(memory, bytes);
}

void* mremap(void* memory, std::size_t old_bytes, std::size_t bytes, int flags, ...) noexcept {
  std::va_list more;
  va_start(more, flags);
  // The C library passes the argument to Linux even without MREMAP_FIXED.
  void* const given = va_arg(more, void*);
  va_end(more);
  void* const place = (flags & MREMAP_FIXED) != 0 ? given : nullptr;
  const void* const caller = __builtin_return_address(0);
  const auto next = [&] {
    return Real<"mremap", Mremap>::get()(memory, old_bytes, bytes, flags, given);
  };
  // With an old size of 0 Linux maps shared memory once more, but refuses private memory.
  if (old_bytes == 0 && pages_of_program(caller, memory, 1)) {
    errno = EINVAL;
    return MAP_FAILED;
  }
  const auto range = pages_of_program(caller, memory, old_bytes);
  // Linux first unmaps what exceeds the new size. So only a hole before the new end makes the call
  // fail.
  if (range && (bytes > old_bytes || place != nullptr) &&
      regions().has_hole({range->start, std::min(range->end, range->start + bytes)})) {
    errno = EFAULT;
    return MAP_FAILED;
  }
  if (range && (flags & ~MREMAP_MAYMOVE) == 0 && bytes != 0 && regions().is_managed(*range))
    return remap(*range, round_up(bytes, page_bytes), flags);
  if (range && !regions().make_private(*range, Reason::remapping)) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  void* const moved = place != nullptr ? in_place_of(caller, place, bytes, next) : next();
  if (!range) return moved;
  // mremap moves only one mapping, so several are copied.
  if (moved == MAP_FAILED && errno == EFAULT && flags == MREMAP_MAYMOVE && bytes > range->bytes() &&
      is_plain(*range))
    return copy_elsewhere(*range, round_up(bytes, page_bytes));
  constexpr int keeps_old = 4;  // MREMAP_DONTUNMAP
  if (moved == MAP_FAILED || (flags & keeps_old) != 0) return moved;
  if (moved != memory)
    regions().note_moved_away(*range);
  else if (const std::size_t now = round_up(bytes, page_bytes); now < range->bytes())
    regions().note_moved_away({range->start + now, range->end});
  return moved;
}

int mprotect(void* memory, std::size_t bytes, int protection) noexcept {
  const void* const caller = __builtin_return_address(0);
  const auto next = Real<"mprotect", int(void*, std::size_t, int)>::get();
  const auto range = pages_of_program(caller, memory, bytes);
  if (range && protection == (PROT_READ | PROT_WRITE) && regions().is_managed(*range)) return 0;
  return on_private_memory(range, Reason::protection, -1, [&] {
    if (!range || !regions().has_hole(*range)) return next(memory, bytes, protection);
    return around_holes(*range, [&](Range part) {
      return next(reinterpret_cast<void*>(part.start), part.bytes(), protection);
    });
  });
}

int madvise(void* memory, std::size_t bytes, int advice) noexcept {
  const void* const caller = __builtin_return_address(0);
  const auto range = pages_of_program(caller, memory, bytes);
  if (range && regions().has_hole(*range)) {
    // Linux checks the advice before the range. So it refuses unknown advice also for an empty
    // range.
    if (next_madvise(memory, 0, advice) != 0) return -1;
    return around_holes(*range, [&](Range part) { return advise_piece(part, advice); });
  }
  if (range && regions().is_managed(*range))
    if (const auto result = advise(*range, advice)) return *result;
  return on_private_memory(range, Reason::advice, -1,
                           [&] { return next_madvise(memory, bytes, advice); });
}

// Of posix_madvise all advice is a hint: POSIX_MADV_DONTNEED must not lose contents.
int posix_madvise(void* memory, std::size_t bytes, int advice) noexcept {
  const bool is_hint = advice >= POSIX_MADV_NORMAL && advice <= POSIX_MADV_DONTNEED;
  if (const auto range = pages_of_program(__builtin_return_address(0), memory, bytes);
      range && is_hint)
    return regions().has_hole(*range) ? ENOMEM : 0;
  return Real<"posix_madvise", int(void*, std::size_t, int)>::get()(memory, bytes, advice);
}

int mlock(const void* memory, std::size_t bytes) noexcept {
  const auto range = pages_to_lock(__builtin_return_address(0), memory, bytes);
  return on_private_memory(range, Reason::locking, -1, [&] {
    return Real<"mlock", int(const void*, std::size_t)>::get()(memory, bytes);
  });
}

int mlock2(const void* memory, std::size_t bytes, unsigned flags) noexcept {
  const auto range = pages_to_lock(__builtin_return_address(0), memory, bytes);
  return on_private_memory(range, Reason::locking, -1, [&] {
    return Real<"mlock2", int(const void*, std::size_t, unsigned)>::get()(memory, bytes, flags);
  });
}

long mbind(void* memory, unsigned long bytes, int mode, const unsigned long* nodes,
           unsigned long nodes_max, unsigned flags) {
  const auto range = pages_of_program(__builtin_return_address(0), memory, bytes);
  return on_private_memory(range, Reason::advice, -1L, [&] {
    return Real<"mbind", long(void*, unsigned long, int, const unsigned long*, unsigned long,
                              unsigned)>::get()(memory, bytes, mode, nodes, nodes_max, flags);
  });
}

}  // extern "C"
#pragma GCC visibility pop
