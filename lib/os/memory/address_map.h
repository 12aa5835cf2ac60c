// This process's mappings as /proc/self/maps lists them. Parsing allocates nothing, so that a
// freshly forked process may do it too.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace wherry::impl {

// Half-open.
struct AddressRange {
  std::uintptr_t start = 0;
  std::uintptr_t end = 0;

  constexpr std::size_t size() const { return end - start; }
  constexpr bool empty() const { return end <= start; }
  constexpr bool contains(std::uintptr_t address) const {
    return address >= start && address < end;
  }
  constexpr bool operator==(const AddressRange&) const = default;
};

// Calls f(part) for the parts of `range` that no range of `kept` covers; stops at its first error.
template <typename F>
int for_each_uncovered(AddressRange range, std::span<const AddressRange> kept, F f) {
  while (!range.empty()) {
    // The covering range, or else the nearest one above.
    std::uintptr_t covered_to = range.start;
    std::uintptr_t next = range.end;
    for (const AddressRange& keep : kept) {
      if (keep.contains(range.start)) covered_to = std::max(covered_to, keep.end);
      if (keep.start > range.start && !keep.empty()) next = std::min(next, keep.start);
    }
    if (covered_to == range.start) {
      if (const int error = f(AddressRange{range.start, next})) return error;
      covered_to = next;
    }
    range.start = covered_to;
  }
  return 0;
}

struct MappedRange {
  AddressRange range;
  bool readable = false;
  bool writable = false;
  bool executable = false;
  bool shared = false;
  std::uint64_t device = 0;  // major << 32 | minor; 0 with inode 0: anonymous
  std::uint64_t inode = 0;
  std::string_view name;  // as listed: a path, "[heap]", "" and so on; points into the text

  bool accessible() const { return readable || writable || executable; }
};

// Takes the first line off `text`; nothing at its end.
std::optional<MappedRange> next_mapping(std::string_view& text);

// Reads /proc/self/maps whole into the buffer; nothing when it does not fit or cannot be read.
std::optional<std::string_view> read_address_map(char* buffer, std::size_t bytes);
// The same on the heap; empty when it cannot be read.
std::string read_address_map();

// The mapping at the address; nothing where there is none.
std::optional<MappedRange> find_mapping(std::string_view text, std::uintptr_t address);

}  // namespace wherry::impl
