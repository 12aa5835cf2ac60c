#include "os/memory/mapped_memory.h"

#include <sys/mman.h>

#include <new>

#include "base/page.h"
#include "os/memory/own_heap.h"

namespace wherry::impl {
namespace {

// Does not use a pool of std::pmr: libstdc++'s pools crash after one failed allocation.
class OwnMemory final : public std::pmr::memory_resource {
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    if (void* const memory = allocate_own(bytes, alignment)) return memory;
    // The heap's range could not be reserved, or is full.
    void* const start = ::mmap(nullptr, round_up(bytes, page_size), PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) throw std::bad_alloc();
    return start;
  }
  void do_deallocate(void* memory, std::size_t bytes, std::size_t) override {
    if (!free_own(memory)) ::munmap(memory, round_up(bytes, page_size));
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

}  // namespace

std::pmr::memory_resource& mapped_memory() {
  // Never destroyed: threads use it until the process ends.
  alignas(OwnMemory) static std::byte place[sizeof(OwnMemory)];
  static OwnMemory& memory = *new (place) OwnMemory;
  return memory;
}

}  // namespace wherry::impl
