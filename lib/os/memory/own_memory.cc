#include "os/memory/own_memory.h"

#include <pthread.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/page.h"
#include "os/memory/address_map.h"

namespace wherry::impl {
namespace {

// Linux gives programs no memory below the lowest address, or from the end on.
constexpr std::uintptr_t lowest_address = 4096;
constexpr std::uintptr_t addresses_end = std::uintptr_t{1} << 48;

// The stack that the calling thread was started with.
AddressRange find_stack() {
  AddressRange stack;
  pthread_attr_t attributes;
  if (::pthread_getattr_np(::pthread_self(), &attributes) != 0) return stack;
  void* start = nullptr;
  std::size_t bytes = 0;
  if (::pthread_attr_getstack(&attributes, &start, &bytes) == 0) {
    stack.start = reinterpret_cast<std::uintptr_t>(start);
    stack.end = stack.start + bytes;
  }
  ::pthread_attr_destroy(&attributes);
  return stack;
}

// The range of the callers' stack frames, which stay readable until they return. Empty if the
// thread runs on another stack now.
AddressRange frames_of_callers() {
  thread_local const AddressRange stack = find_stack();
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  if (here < stack.start || here >= stack.end) return {};
  return {here, stack.end};
}

// AddressSanitizer would report reads of the gaps between variables.
[[gnu::no_sanitize_address]] void copy_frames(std::uintptr_t address, std::span<std::byte> into) {
  const auto* from = reinterpret_cast<const volatile std::byte*>(address);
  for (std::byte& byte : into) byte = *from++;
}

}  // namespace

// Most of the memory that callers name lies in their stack frames, which are read directly: a
// system call would take most of the time of a launch.
//
// Linux reads one element after the other, and stops at the first of which it cannot read all. So
// each element is in one page, and after a stop the next call begins behind the unreadable one.
void read_readable(std::span<MemoryPart> parts) {
  struct Element {
    MemoryPart* part;
    std::size_t bytes;
  };
  const AddressRange frames = frames_of_callers();
  std::vector<Element> elements;
  std::vector<iovec> local;
  std::vector<iovec> remote;
  for (MemoryPart& part : parts) {
    part.read = 0;
    if (part.address < lowest_address || part.address >= addresses_end) continue;
    if (part.address >= frames.start && part.address < frames.end) {
      part.read = std::min(part.into.size(), frames.end - part.address);
      copy_frames(part.address, part.into.first(part.read));
      continue;
    }
    for (std::size_t at = 0; at < part.into.size();) {
      const std::uintptr_t from = part.address + at;
      const std::size_t bytes =
          std::min<std::size_t>(part.into.size() - at, page_size - from % page_size);
      elements.push_back({&part, bytes});
      local.push_back({part.into.data() + at, bytes});
      remote.push_back({reinterpret_cast<void*>(from), bytes});
      at += bytes;
    }
  }
  for (std::size_t first = 0; first < elements.size();) {
    const std::size_t count = elements.size() - first;
    ssize_t got = ::process_vm_readv(::getpid(), &local[first], count, &remote[first], count, 0);
    for (; first < elements.size() && got >= static_cast<ssize_t>(elements[first].bytes); ++first) {
      elements[first].part->read += elements[first].bytes;
      got -= static_cast<ssize_t>(elements[first].bytes);
    }
    if (first == elements.size()) break;
    // The rest of this part lies behind the unreadable page.
    const MemoryPart* const part = elements[first].part;
    while (first < elements.size() && elements[first].part == part) ++first;
  }
}

}  // namespace wherry::impl
