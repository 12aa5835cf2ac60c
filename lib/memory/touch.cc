#include "memory/touch.h"

#include <algorithm>
#include <atomic>

#include "base/page.h"
#include "os/fork_mark.h"

namespace wherry::impl {
namespace {

struct Announced {
  TouchableMemory memory;
  ForkMark mark;
};

std::atomic<const Announced*> announced = nullptr;

void access_one(std::uintptr_t address, Access access) {
  auto* const byte = reinterpret_cast<volatile unsigned char*>(address);
  if (access == Access::read) {
    [[maybe_unused]] const unsigned char looked = *byte;
    return;
  }
  // A write that changes nothing, also for those who write the same byte now. Not std::atomic: compilers know that
  // or-ing 0 changes nothing, and read.
  asm volatile("lock orb $0, %0" : "+m"(*byte) : : "memory", "cc");
}

}  // namespace

void TouchableMemory::announce(const TouchableMemory& memory) {
  // Never destroyed: somebody may be looking at the one before.
  announced.store(new Announced{memory, {}}, std::memory_order_release);
}

const TouchableMemory* TouchableMemory::current() {
  const Announced* const found = announced.load(std::memory_order_acquire);
  return found != nullptr && found->mark.is_here() ? &found->memory : nullptr;
}

std::size_t TouchableMemory::count_accessible(std::uintptr_t start, std::size_t length) const {
  if (start < base || start - base >= bytes || length == 0) return 0;
  const std::uint64_t offset = start - base;
  const std::uint64_t first = offset / page_size;
  const std::uint64_t end = round_up(std::min(offset + length, bytes), page_size) / page_size;
  const std::uint64_t count = owners.count_accessible({first, end - first}, processor);
  return count == 0 ? 0 : std::min(length, (first + count) * page_size - offset);
}

bool TouchableMemory::is_of_one_allocation(std::uintptr_t start, std::size_t length) const {
  if (length == 0 || count_accessible(start, length) != length) return false;
  const std::uint64_t first = (start - base) / page_size;
  const std::uint64_t last = (start - base + length - 1) / page_size;
  return owners.are_of_one_allocation({first, last - first + 1});
}

void touch(std::uintptr_t start, std::size_t length, Access access) {
  const std::uintptr_t last = start + length - 1;
  for (std::uintptr_t address = start; address <= last;
       address = round_down(address, page_size) + page_size)
    access_one(address, access);
}

}  // namespace wherry::impl
