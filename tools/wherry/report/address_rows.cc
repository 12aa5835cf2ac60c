#include "address_rows.h"

#include <algorithm>
#include <functional>

namespace wherry::report {
namespace {

// The least rows of a segment, so that small ones, such as vectors beside a matrix, are seen.
constexpr std::size_t least_rows = 2;

void add(std::vector<Segment>& segments, Extent extent, std::string_view name) {
  if (extent.begin >= extent.end) return;
  if (!segments.empty() && segments.back().extent.end == extent.begin &&
      segments.back().name == name)
    segments.back().extent.end = extent.end;
  else
    segments.push_back({extent, std::string(name), 0, 0, 0});
}

// The parts of the extents, divided where names begin and end.
std::vector<Segment> divide(std::span<const Extent> extents, const tool::RangeNames& names) {
  std::vector<Segment> segments;
  for (const auto& [begin, end] : extents) {
    std::uint64_t at = begin;
    auto range = names.all().upper_bound(begin);
    if (range != names.all().begin()) --range;
    for (; range != names.all().end() && range->first < end; ++range) {
      const std::uint64_t named_from = std::max(range->first, at);
      const std::uint64_t named_to = std::min(range->second.end, end);
      if (named_from >= named_to) continue;
      add(segments, {at, named_from}, {});
      add(segments, {named_from, named_to}, range->second.name);
      at = named_to;
    }
    add(segments, {at, end}, {});
  }
  return segments;
}

std::uint64_t round_up_to_pages(std::uint64_t bytes, std::uint64_t page_bytes) {
  return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

}  // namespace

AddressRows::AddressRows(std::span<const Extent> extents, const tool::RangeNames& names,
                         std::uint64_t page_bytes, std::size_t rows, std::size_t segments_max)
    : segments_(divide(extents, names)) {
  if (segments_.size() > segments_max) segments_ = divide(extents, {});
  keep_largest(segments_max);
  std::uint64_t bytes = 0;
  for (const Segment& segment : segments_) bytes += segment.extent.bytes();
  const std::uint64_t usual = std::max(bytes / std::max<std::size_t>(rows, 1), page_bytes);
  for (Segment& segment : segments_) {
    const std::uint64_t most = segment.extent.bytes() / least_rows;
    segment.row_bytes = round_up_to_pages(std::clamp<std::uint64_t>(most, 1, usual), page_bytes);
    segment.first_row = size_;
    segment.rows = (segment.extent.bytes() + segment.row_bytes - 1) / segment.row_bytes;
    size_ += segment.rows;
  }
}

void AddressRows::keep_largest(std::size_t segments_max) {
  if (segments_.size() <= segments_max) return;
  const auto bytes_of = [](const Segment& segment) { return segment.extent.bytes(); };
  std::ranges::stable_sort(segments_, std::greater<>(), bytes_of);
  for (std::size_t i = segments_max; i < segments_.size(); ++i)
    bytes_left_out_ += bytes_of(segments_[i]);
  segments_.resize(segments_max);
  std::ranges::sort(segments_, {}, [](const Segment& segment) { return segment.extent.begin; });
}

std::optional<AddressRows::Row> AddressRows::find(std::uint64_t address) const {
  const auto after = std::ranges::upper_bound(
      segments_, address, {}, [](const Segment& segment) { return segment.extent.begin; });
  if (after == segments_.begin()) return std::nullopt;
  const Segment& segment = *(after - 1);
  if (address >= segment.extent.end) return std::nullopt;
  const std::uint64_t nth = (address - segment.extent.begin) / segment.row_bytes;
  const std::uint64_t begin = segment.extent.begin + nth * segment.row_bytes;
  return Row{segment.first_row + nth,
             {begin, begin + std::min(segment.row_bytes, segment.extent.end - begin)}};
}

Extent AddressRows::extent_of(std::size_t row) const {
  const auto after =
      std::ranges::upper_bound(segments_, row, {}, [](const Segment& s) { return s.first_row; });
  const Segment& segment = *(after - 1);
  const std::uint64_t begin = segment.extent.begin + (row - segment.first_row) * segment.row_bytes;
  return {begin, begin + std::min(segment.row_bytes, segment.extent.end - begin)};
}

}  // namespace wherry::report
