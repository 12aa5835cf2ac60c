#include "range_names.h"

#include <iterator>

namespace wherry::tool {

void RangeNames::set(std::uint64_t start, std::uint64_t bytes, std::string_view name) {
  forget(start, bytes);
  if (const std::uint64_t end = end_of(start, bytes); start < end) ranges_[start] = {end, name};
}

void RangeNames::forget(std::uint64_t start, std::uint64_t bytes) {
  const std::uint64_t end = end_of(start, bytes);
  split(start);
  split(end);
  ranges_.erase(ranges_.lower_bound(start), ranges_.lower_bound(end));
}

std::string_view RangeNames::at(std::uint64_t address) const {
  const auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin() || std::prev(after)->second.end <= address) return {};
  return std::prev(after)->second.name;
}

void RangeNames::split(std::uint64_t address) {
  const auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) return;
  const auto range = std::prev(after);
  if (range->first == address || range->second.end <= address) return;
  ranges_[address] = range->second;
  range->second.end = address;
}

std::uint64_t end_of(std::uint64_t start, std::uint64_t bytes) {
  return start + bytes < start ? UINT64_MAX : start + bytes;
}

}  // namespace wherry::tool
