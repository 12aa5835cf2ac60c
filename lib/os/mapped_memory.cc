#include "os/mapped_memory.h"

#include <sys/mman.h>

#include <new>

#include "base/lock.h"
#include "base/page.h"

namespace wherry::impl {
namespace {

class Pages final : public std::pmr::memory_resource {
  void* do_allocate(std::size_t bytes, std::size_t) override {
    void* const start = ::mmap(nullptr, round_up(bytes, page_size), PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) throw std::bad_alloc();
    return start;
  }
  void do_deallocate(void* start, std::size_t bytes, std::size_t) override {
    ::munmap(start, round_up(bytes, page_size));
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

class LockedPool final : public std::pmr::memory_resource {
 public:
  // Objects of up to a few KiB, by hundreds at a time.
  LockedPool() : pool_({256, 4096}, &pages_) {}

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    const LockGuard guard(lock_);
    return pool_.allocate(bytes, alignment);
  }
  void do_deallocate(void* start, std::size_t bytes, std::size_t alignment) override {
    const LockGuard guard(lock_);
    pool_.deallocate(start, bytes, alignment);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  Pages pages_;
  Mutex lock_{LockOrder::mapped_memory};
  std::pmr::unsynchronized_pool_resource pool_ GUARDED_BY(lock_);
};

}  // namespace

std::pmr::memory_resource& mapped_memory() {
  // Threads use it until the very end of the process.
  alignas(LockedPool) static std::byte place[sizeof(LockedPool)];
  static LockedPool& pool = *new (place) LockedPool;
  return pool;
}

}  // namespace wherry::impl
