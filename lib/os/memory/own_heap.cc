#include "os/memory/own_heap.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdint>

#include "base/page.h"

namespace wherry::impl {
namespace {

constexpr std::size_t chunk_bytes = std::size_t{64} << 10;
constexpr std::size_t range_bytes_max = std::size_t{4} << 30;
constexpr std::size_t range_bytes_min = std::size_t{64} << 20;
// The heap takes at most this fraction of a limited address space (RLIMIT_AS).
constexpr std::size_t part_of_limit = 16;
// The least amount that is made accessible at once.
constexpr std::size_t step_bytes = std::size_t{1} << 20;
constexpr std::size_t unit = 16;  // every object starts at a multiple of this

// Size classes ("sorts"): 2^n and 3 * 2^(n-1) bytes up to half a chunk, then 2^n chunks.
constexpr std::size_t smallest = 32;
constexpr unsigned small_sorts = 21;
constexpr unsigned large_sorts = 15;
constexpr std::size_t small_max = chunk_bytes / 2;

constexpr std::size_t small_size(unsigned sort) {
  return sort % 2 == 0 ? smallest << sort / 2 : (smallest << (sort / 2 + 1)) / 4 * 3;
}
static_assert(small_size(0) == 32 && small_size(1) == 48 && small_size(2) == 64);
static_assert(small_size(small_sorts - 1) == small_max);

// Requires: bytes <= small_max.
unsigned small_sort(std::size_t bytes, std::size_t alignment) {
  if (bytes <= smallest && alignment <= smallest) return 0;
  const std::size_t power = std::bit_ceil(std::max(bytes, alignment));
  const auto sort = 2 * static_cast<unsigned>(std::countr_zero(power / smallest));
  const std::size_t less = power / 4 * 3;
  return bytes <= less && less % alignment == 0 ? sort - 1 : sort;
}

unsigned large_sort(std::size_t bytes) {
  const std::size_t chunks = std::bit_ceil((bytes + chunk_bytes - 1) / chunk_bytes);
  return small_sorts + static_cast<unsigned>(std::countr_zero(chunks));
}

constexpr std::size_t large_size(unsigned sort) {
  return chunk_bytes << (sort - small_sorts);
}

// Where the heap's range begins; 0 before it is reserved, `refused` if it cannot be reserved.
constexpr std::uintptr_t refused = 1;
constinit std::atomic<std::uintptr_t> base = 0;
constinit std::atomic<std::size_t> range_bytes = 0;
constinit std::atomic<std::size_t> taken = 0;  // bytes from the base that belong to objects
// a lower bound of the bytes from the base that are accessible
constinit std::atomic<std::size_t> accessible = 0;
// The size class of each chunk's objects; for a large object, at its first chunk.
constinit std::array<std::atomic<std::uint8_t>, range_bytes_max / chunk_bytes> sorts{};
// Free lists, one per size class, last freed first. The low half is the first object's place in
// units, plus 1 (0: empty). The high half counts changes, so that a thread detects a change between
// its read and its compare-and-exchange.
constinit std::array<std::atomic<std::uint64_t>, small_sorts + large_sorts> free_objects{};

using Place = std::uint32_t;  // a place as in the low half of a free list

Place place_of(std::uintptr_t start, const void* object) {
  return static_cast<Place>((reinterpret_cast<std::uintptr_t>(object) - start) / unit + 1);
}
void* object_at(std::uintptr_t start, Place place) {
  return reinterpret_cast<void*>(start + (place - std::size_t{1}) * unit);
}
// The first word of a free object is the place of the next one.
std::atomic_ref<Place> next_of(void* object) {
  return std::atomic_ref<Place>(*static_cast<Place*>(object));
}

constexpr std::uint64_t changed(std::uint64_t list, Place first) {
  return ((list >> 32) + 1) << 32 | first;
}

std::size_t wanted_range() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return range_bytes_max;
  return std::clamp(std::bit_floor(static_cast<std::size_t>(limit.rlim_cur) / part_of_limit),
                    range_bytes_min, range_bytes_max);
}

// Returns where the range begins, or `refused`.
std::uintptr_t range_start() {
  const std::uintptr_t known = base.load(std::memory_order_acquire);
  if (known != 0) return known;
  const std::size_t bytes = wanted_range();
  // One chunk more, to begin at a chunk boundary.
  void* const memory = ::mmap(nullptr, bytes + chunk_bytes, PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  std::uintptr_t start = refused;
  if (memory != MAP_FAILED) {
    start = round_up(reinterpret_cast<std::uintptr_t>(memory), chunk_bytes);
    range_bytes.store(bytes, std::memory_order_relaxed);  // concurrent callers store the same value
  }
  std::uintptr_t before = 0;
  if (base.compare_exchange_strong(before, start)) return start;
  if (memory != MAP_FAILED) ::munmap(memory, bytes + chunk_bytes);
  return before;
}

bool make_accessible(std::uintptr_t start, std::size_t end) {
  std::size_t now = accessible.load();
  while (now < end) {
    const std::size_t more = std::min(round_up(end, step_bytes), range_bytes.load());
    // Several threads may do this at once, and a signal handler may interrupt it: repeating it does
    // no harm.
    if (::mprotect(reinterpret_cast<void*>(start + now), more - now, PROT_READ | PROT_WRITE) != 0)
      return false;
    while (now < more && !accessible.compare_exchange_weak(now, more)) continue;
  }
  return true;
}

// Takes new contiguous chunks. Returns null if there are none left.
std::byte* take_chunks(std::uintptr_t start, std::size_t bytes, unsigned sort) {
  std::size_t at = taken.load();
  do {
    if (bytes > range_bytes.load() - at) return nullptr;
  } while (!taken.compare_exchange_weak(at, at + bytes));
  // Linux has no memory for the chunks, which stay unused
  if (!make_accessible(start, at + bytes)) return nullptr;
  sorts[at / chunk_bytes].store(static_cast<std::uint8_t>(sort), std::memory_order_release);
  return reinterpret_cast<std::byte*>(start + at);
}

void* pop(std::uintptr_t start, unsigned sort) {
  auto& list = free_objects[sort];
  std::uint64_t seen = list.load(std::memory_order_acquire);
  for (;;) {
    const auto place = static_cast<Place>(seen);
    if (place == 0) return nullptr;
    void* const object = object_at(start, place);
    // Another thread may have taken the object and may be writing to it: then the list has changed,
    // and the exchange below fails.
    const Place next = next_of(object).load(std::memory_order_relaxed);
    if (list.compare_exchange_weak(seen, changed(seen, next), std::memory_order_acquire))
      return object;
  }
}

// Adds the objects from `first` to `last`, which are already linked.
void push(std::uintptr_t start, unsigned sort, void* first, void* last) {
  auto& list = free_objects[sort];
  std::uint64_t seen = list.load(std::memory_order_relaxed);
  do {
    next_of(last).store(static_cast<Place>(seen), std::memory_order_relaxed);
  } while (!list.compare_exchange_weak(seen, changed(seen, place_of(start, first)),
                                       std::memory_order_release, std::memory_order_relaxed));
}

void* allocate_small(std::uintptr_t start, unsigned sort) {
  if (void* const object = pop(start, sort)) return object;
  std::byte* const chunk = take_chunks(start, chunk_bytes, sort);
  if (chunk == nullptr) return nullptr;
  const std::size_t size = small_size(sort);
  const std::size_t count = chunk_bytes / size;
  for (std::size_t i = 1; i + 1 < count; ++i)
    next_of(chunk + i * size)
        .store(place_of(start, chunk + (i + 1) * size), std::memory_order_relaxed);
  push(start, sort, chunk + size, chunk + (count - 1) * size);
  return chunk;
}

bool is_in_range(const void* memory) {
  const std::uintptr_t start = base.load(std::memory_order_acquire);
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  return start > refused && address >= start && address < start + range_bytes.load();
}

// Requires: is_in_range().
unsigned sort_of(const void* memory) {
  const std::uintptr_t start = base.load(std::memory_order_acquire);
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  return sorts[(address - start) / chunk_bytes].load(std::memory_order_acquire);
}

}  // namespace

void* allocate_own(std::size_t bytes, std::size_t alignment) {
  const std::uintptr_t start = range_start();
  if (start == refused) return nullptr;
  if (bytes <= small_max && alignment <= page_size)
    return allocate_small(start, small_sort(bytes, alignment));
  if (bytes > large_size(small_sorts + large_sorts - 1)) return nullptr;
  const unsigned sort = large_sort(bytes);
  if (void* const object = pop(start, sort)) return object;
  return take_chunks(start, large_size(sort), sort);
}

bool free_own(void* memory) {
  if (!is_in_range(memory)) return false;
  const unsigned sort = sort_of(memory);
  if (sort >= small_sorts) {
    // Returns the memory to Linux, except the first page, which links to the next free object.
    // errno is preserved for the caller.
    const int saved_errno = errno;
    if (large_size(sort) > page_size)
      ::madvise(static_cast<std::byte*>(memory) + page_size, large_size(sort) - page_size,
                MADV_DONTNEED);
    errno = saved_errno;
  }
  push(base.load(std::memory_order_acquire), sort, memory, memory);
  return true;
}

std::size_t own_bytes(const void* memory) {
  if (!is_in_range(memory)) return 0;
  const unsigned sort = sort_of(memory);
  return sort < small_sorts ? small_size(sort) : large_size(sort);
}

bool has_own_heap() {
  return range_start() != refused;
}

AddressRange own_heap_range() {
  const std::uintptr_t start = base.load(std::memory_order_acquire);
  return start <= refused ? AddressRange{} : AddressRange{start, start + range_bytes.load()};
}

}  // namespace wherry::impl
