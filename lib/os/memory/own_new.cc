// operator new and delete of libwherry.so; its version script hides them from other modules. They
// allocate from the library's own heap. If the library frees memory that other libraries allocated
// (for example strings of the C++ library), the memory goes back to its own allocator.
//
// Not part of libwherry.a: there these functions would replace the whole program's.
#include <dlfcn.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

#include "os/memory/own_heap.h"

namespace {

using wherry::impl::allocate_own;
using wherry::impl::free_own;
using wherry::impl::has_own_heap;

// Returns the program's function of this name, or else the C++ library's.
template <typename Function>
Function* find_theirs(const char* name) {
  void* found = ::dlsym(RTLD_DEFAULT, name);
  if (found == nullptr) found = ::dlsym(RTLD_NEXT, name);
  return reinterpret_cast<Function*>(found);
}

void free_theirs(void* memory) {
  using Delete = void(void*);
  static std::atomic<Delete*> theirs = nullptr;
  Delete* found = theirs.load(std::memory_order_relaxed);
  if (found == nullptr) {
    found = find_theirs<Delete>("_ZdlPv");
    if (found == nullptr) found = std::free;
    theirs.store(found, std::memory_order_relaxed);
  }
  found(memory);
}

void* allocate_theirs(std::size_t bytes) {
  using New = void*(std::size_t);
  New* const theirs = find_theirs<New>("_Znwm");
  return theirs != nullptr ? theirs(bytes) : nullptr;
}

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (void* const memory = allocate_own(bytes, alignment)) return memory;
  // If no range could be reserved, the library uses the program's allocator.
  if (!has_own_heap() && alignment <= alignof(std::max_align_t)) return allocate_theirs(bytes);
  return nullptr;
}

void* allocate_or_throw(std::size_t bytes, std::size_t alignment) {
  void* const memory = allocate(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void release(void* memory) noexcept {
  if (memory != nullptr && !free_own(memory)) free_theirs(memory);
}

constexpr std::size_t usual = alignof(std::max_align_t);

}  // namespace

void* operator new(std::size_t bytes) {
  return allocate_or_throw(bytes, usual);
}
void* operator new[](std::size_t bytes) {
  return allocate_or_throw(bytes, usual);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes, usual);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes, usual);
}
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment,
                     const std::nothrow_t&) noexcept {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}

void operator delete(void* memory) noexcept {
  release(memory);
}
void operator delete[](void* memory) noexcept {
  release(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  release(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  release(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  release(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  release(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  release(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  release(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  release(memory);
}
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  release(memory);
}
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  release(memory);
}
void operator delete[](void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  release(memory);
}
