// This process's mappings as /proc/self/maps lists them. Parsing allocates nothing, so a freshly
// forked process may parse too.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace wherry::impl {

// A half-open range of addresses.
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

// Calls f(part) for each part of `range` that no range of `kept` covers. Stops at the first nonzero
// result and returns it.
template <typename F>
int for_each_uncovered(AddressRange range, std::span<const AddressRange> kept, F f) {
  while (!range.empty()) {
    // The end of the covering range, or else the start of the nearest range above.
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
  std::uint64_t offset = 0;  // in the file
  std::string_view name;     // as listed: a path, "[heap]", "", ...; points into the parsed text

  bool accessible() const { return readable || writable || executable; }
};

// Removes the first line from `text` and parses it. Returns nullopt at the end of the text.
std::optional<MappedRange> next_mapping(std::string_view& text);

// Reads all of /proc/self/maps into the buffer. Returns nullopt if it does not fit or cannot be
// read.
std::optional<std::string_view> read_address_map(char* buffer, std::size_t bytes);
// Reads all of /proc/self/smaps likewise: the mappings with what Linux counts and flags in each,
// which takes it longer.
std::optional<std::string_view> read_address_map_with_flags(char* buffer, std::size_t bytes);
// Removes the text up to the next mapping of memory that Linux may drop (MAP_DROPPABLE) from
// `smaps`, and parses that mapping. Returns nullopt at the end of the text.
std::optional<MappedRange> next_droppable(std::string_view& smaps);
// Reads all of /proc/self/maps into a string, which is empty if it cannot be read.
std::string read_address_map();

// Returns the mapping at the address; nullopt if there is none.
std::optional<MappedRange> find_mapping(std::string_view text, std::uintptr_t address);

}  // namespace wherry::impl
