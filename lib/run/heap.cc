// malloc and its kin. Objects of at least Settings::min_bytes are managed memory. All others come
// from the next allocator: the C library's, or another one that is preloaded or linked. (An
// allocator inside the program itself comes before this library; its mappings are managed instead:
// mappings.cc.)
//
// Where Linux does not serve faults inside system calls, the C library's own allocations are
// ordinary memory: it passes buffers of streams and folders to Linux by calls that no wrapper sees.
// If another allocator, whose mappings may be managed, serves the program, they come from Wherry's
// own heap.
//
// Allocations of the C and C++ libraries in Wherry's calls come from Wherry's own heap, because the
// next allocator may have called mmap and hold its locks.
#include <malloc.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "os/memory/own_heap.h"
#include "run/managed_regions.h"
#include "run/own_calls.h"
#include "run/real.h"
#include "run/session.h"
#include "run/settings.h"

namespace wherry::run {
namespace {

ManagedRegions& regions() {
  return ManagedRegions::instance();
}

bool must_be_ordinary(const void* caller) {
  return calls_must_be_helped() && is_c_library(caller);
}

bool is_large(const void* caller, std::size_t bytes) {
  const Settings* const found = settings();
  return found != nullptr && bytes >= found->min_bytes && is_running() && !must_be_ordinary(caller);
}

// Allocates for Wherry's calls and some of the C library's. Returns null if the call is none of
// these, or the own heap is full.
void* own_memory(const void* caller, std::size_t alignment, std::size_t bytes) {
  constexpr std::size_t usual = alignof(std::max_align_t);
  const bool is_wanted =
      OwnCalls::active() || (program_malloc() != Malloc::of_c_library && must_be_ordinary(caller));
  if (!is_wanted || alignment > page_bytes) return nullptr;
  return impl::allocate_own(bytes, std::max(alignment, usual));
}

// A quick test without a lock: managed objects begin where blocks do. It may be true for other
// memory, since an allocator may keep small objects in managed mappings.
bool may_be_managed_object(const void* memory) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  return address % block_bytes == 0 && regions().may_contain(address);
}

void* next_malloc(std::size_t bytes) {
  return Real<"malloc", void*(std::size_t)>::get()(bytes);
}

void next_free(void* memory) {
  using Next = Real<"free", void(void*)>;
  if (Next::is_found()) return Next::get()(memory);
  // This library is not initialized yet. dlsym() may free the text of its last error, which calls
  // this function again; then the text is not freed.
  [[gnu::tls_model("initial-exec")]] static thread_local bool finds = false;
  if (std::exchange(finds, true)) return;
  auto* const next = Next::get();
  finds = false;
  next(memory);
}

std::size_t next_usable(void* memory) {
  return Real<"malloc_usable_size", std::size_t(void*)>::get()(memory);
}

// Returns null if the next allocator has to serve the request. Regions are aligned to blocks.
void* allocate_aligned(const void* caller, std::size_t alignment, std::size_t bytes) {
  if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > block_bytes)
    return nullptr;
  if (void* const memory = own_memory(caller, alignment, bytes)) return memory;
  return is_large(caller, bytes) ? regions().allocate_object(bytes, /*zeroed=*/false) : nullptr;
}

void* allocate(const void* caller, std::size_t bytes) {
  if (void* const memory = allocate_aligned(caller, 1, bytes)) return memory;
  return next_malloc(bytes);
}

// Frees memory of Wherry's heap or managed memory. Returns false for the next allocator's.
bool free_here(void* memory) {
  return impl::free_own(memory) || (may_be_managed_object(memory) && regions().free_object(memory));
}

// How many bytes of an object may be used; nullopt if it is the next allocator's.
std::optional<std::size_t> bytes_here(const void* memory) {
  if (const std::size_t bytes = impl::own_bytes(memory)) return bytes;
  return may_be_managed_object(memory) ? regions().object_bytes(memory) : std::nullopt;
}

void* move_to_new(const void* caller, void* old, std::size_t old_bytes, std::size_t bytes) {
  void* memory = nullptr;
  if (bytes > old_bytes && is_large(caller, bytes)) memory = regions().allocate_grown_object(bytes);
  if (memory == nullptr) memory = allocate(caller, bytes);
  if (memory == nullptr) return nullptr;
  std::memcpy(memory, old, old_bytes < bytes ? old_bytes : bytes);
  std::free(old);
  return memory;
}

}  // namespace
}  // namespace wherry::run

using namespace wherry::run;

#pragma GCC visibility push(default)
extern "C" {

void* malloc(std::size_t bytes) {
  return allocate(__builtin_return_address(0), bytes);
}

void free(void* memory) {
  if (!free_here(memory)) next_free(memory);
}

void* calloc(std::size_t count, std::size_t each) {
  std::size_t bytes = 0;
  if (!__builtin_mul_overflow(count, each, &bytes)) {
    const void* const caller = __builtin_return_address(0);
    if (void* const memory = own_memory(caller, 1, bytes)) return std::memset(memory, 0, bytes);
    if (is_large(caller, bytes))
      if (void* const memory = regions().allocate_object(bytes, /*zeroed=*/true)) return memory;
  }
  return Real<"calloc", void*(std::size_t, std::size_t)>::get()(count, each);
}

void* realloc(void* memory, std::size_t bytes) {
  const void* const caller = __builtin_return_address(0);
  if (memory == nullptr) return allocate(caller, bytes);
  if (const auto old_bytes = bytes_here(memory)) {
    if (bytes == 0) {
      std::free(memory);
      return nullptr;
    }
    if (may_be_managed_object(memory) && regions().resize_object(memory, bytes)) return memory;
    return move_to_new(caller, memory, *old_bytes, bytes);
  }
  if (is_large(caller, bytes)) return move_to_new(caller, memory, next_usable(memory), bytes);
  return Real<"realloc", void*(void*, std::size_t)>::get()(memory, bytes);
}

void* reallocarray(void* memory, std::size_t count, std::size_t each) noexcept {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, each, &bytes)) {
    errno = ENOMEM;
    return nullptr;
  }
  return std::realloc(memory, bytes);
}

void* memalign(std::size_t alignment, std::size_t bytes) {
  if (void* const memory = allocate_aligned(__builtin_return_address(0), alignment, bytes))
    return memory;
  return Real<"memalign", void*(std::size_t, std::size_t)>::get()(alignment, bytes);
}

void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  if (void* const memory = allocate_aligned(__builtin_return_address(0), alignment, bytes))
    return memory;
  return Real<"aligned_alloc", void*(std::size_t, std::size_t)>::get()(alignment, bytes);
}

int posix_memalign(void** result, std::size_t alignment, std::size_t bytes) {
  if (alignment % sizeof(void*) == 0) {
    if (void* const memory = allocate_aligned(__builtin_return_address(0), alignment, bytes)) {
      *result = memory;
      return 0;
    }
  }
  return Real<"posix_memalign", int(void**, std::size_t, std::size_t)>::get()(result, alignment,
                                                                              bytes);
}

void* valloc(std::size_t bytes) {
  if (void* const memory = allocate_aligned(__builtin_return_address(0), page_bytes, bytes))
    return memory;
  return Real<"valloc", void*(std::size_t)>::get()(bytes);
}

void* pvalloc(std::size_t bytes) {
  if (void* const memory = allocate_aligned(__builtin_return_address(0), page_bytes, bytes))
    return memory;
  return Real<"pvalloc", void*(std::size_t)>::get()(bytes);
}

std::size_t malloc_usable_size(void* memory) noexcept {
  if (const auto bytes = bytes_here(memory)) return *bytes;
  return next_usable(memory);
}

}  // extern "C"
#pragma GCC visibility pop
