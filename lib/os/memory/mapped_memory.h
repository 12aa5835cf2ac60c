// Memory from Linux and not from malloc, for allocations that the library makes while a thread
// of the program waits for it: that thread may hold malloc's lock.
#pragma once

#include <memory>
#include <memory_resource>

namespace wherry::impl {

// Any thread. Throws std::bad_alloc. Freed memory is reused (os/memory/own_heap.h).
std::pmr::memory_resource& mapped_memory();

struct MappedDelete {
  template <typename T>
  void operator()(T* object) const {
    std::pmr::polymorphic_allocator<>(&mapped_memory()).delete_object(object);
  }
};
// Owns an object in mapped_memory().
template <typename T>
using MappedPtr = std::unique_ptr<T, MappedDelete>;

template <typename T>
MappedPtr<T> make_mapped() {
  return MappedPtr<T>(std::pmr::polymorphic_allocator<>(&mapped_memory()).new_object<T>());
}

}  // namespace wherry::impl
