// Managed memory as a memory space, in the style of Kokkos: a class that allocates and frees, has a
// name, and says nothing about where code runs. Copy this file into a program that has containers
// with memory spaces of their own.
#pragma once

#include <cstddef>
#include <wherry/wherry.hpp>

class ManagedSpace {
 public:
  using memory_space = ManagedSpace;
  using size_type = std::size_t;

  static constexpr const char* name() { return "Managed"; }

  // Returns memory that is zero, and valid at one address on the host and on every device; aligned
  // to pages. The label is its name in reports on a trace. Throws std::bad_alloc. Any thread.
  void* allocate(std::size_t bytes) const { return wherry::managed_resource().allocate(bytes); }
  void* allocate(const char* label, std::size_t bytes) const {
    void* const pointer = allocate(bytes);
    wherry::name_range(std::span(static_cast<std::byte*>(pointer), bytes), label);
    return pointer;
  }

  // Frees it. Waits for work that was submitted before. Any thread.
  void deallocate(void* pointer, std::size_t bytes) const {
    wherry::managed_resource().deallocate(pointer, bytes);
  }
  void deallocate(const char*, void* pointer, std::size_t bytes) const {
    deallocate(pointer, bytes);
  }

  bool operator==(const ManagedSpace&) const = default;
};
