#include "memory/touch.h"

#include <algorithm>
#include <atomic>

#include "base/page.h"
#include "memory/system_calls.h"
#include "os/arch/cpu.h"
#include "os/process/fork_mark.h"

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
  write_unchanged(byte);
}

}  // namespace

void TouchableMemory::announce(const TouchableMemory& memory) {
  // The previous one is never destroyed: another thread may still be reading it.
  announced.store(new Announced{memory, {}}, std::memory_order_release);
  announce_to_system_calls(*memory.layout);
}

const TouchableMemory* TouchableMemory::current() {
  const Announced* const found = announced.load(std::memory_order_acquire);
  return found != nullptr && found->mark.is_here() ? &found->memory : nullptr;
}

bool TouchableMemory::overlaps(std::uintptr_t start, std::size_t length) const {
  const auto reaches = [&](std::uintptr_t place, std::size_t bytes) {
    return start < place + bytes && start + length > place ? 1 : 0;
  };
  return reaches(layout->base(), layout->bytes()) != 0 ||
         layout->for_each_placed([&](const PlacedPages& placed) {
           return reaches(placed.address, placed.pages.bytes());
         }) != 0;
}

std::size_t TouchableMemory::count_accessible(std::uintptr_t start, std::size_t length) const {
  const auto first = layout->page_of(start);
  if (!first || length == 0) return 0;
  // Addresses past the end of the layout belong to no page.
  const std::uint64_t offset = offset_of(*first) + start % page_size;
  const std::uint64_t all = layout->bytes();
  const PageIndex end = page_at_offset(round_up(std::min(offset + length, all), page_size));
  const std::uint64_t count = owners.count_accessible({*first, end - *first}, processor);
  return count == 0 ? 0 : std::min(length, offset_of(*first + count) - offset);
}

bool TouchableMemory::is_of_one_allocation(std::uintptr_t start, std::size_t length) const {
  if (length == 0 || count_accessible(start, length) != length) return false;
  const PageIndex first = *layout->page_of(start);
  const PageIndex last = page_at_offset(offset_of(first) + start % page_size + length - 1);
  return owners.are_of_one_allocation({first, last - first + 1});
}

void touch(std::uintptr_t start, std::size_t length, Access access) {
  const std::uintptr_t last = start + length - 1;
  for (std::uintptr_t address = start; address <= last;
       address = round_down(address, page_size) + page_size)
    access_one(address, access);
}

}  // namespace wherry::impl
