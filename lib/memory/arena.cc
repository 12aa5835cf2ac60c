#include "memory/arena.h"

#include <algorithm>
#include <bit>

#include "base/page.h"
#include "os/files/fd.h"
#include "trap/pool_view.h"

namespace wherry::impl {
namespace {

constexpr std::size_t gib = std::size_t{1} << 30;
constexpr std::size_t unit_min = std::size_t{64} << 20;
constexpr std::size_t units_per_doubling = 16;

}  // namespace

std::size_t Arena::default_size(std::uint64_t memory_bytes, int processors) {
  const std::uint64_t wanted = std::max<std::uint64_t>(1024 * gib, 16 * memory_bytes);
  return std::min<std::size_t>(round_up(wanted, gib), largest_size(processors));
}

std::size_t Arena::largest_size(int processors) {
  return round_down(64 * 1024 * gib / views(processors), gib);
}

std::size_t Arena::placed_bytes(std::size_t bytes) {
  return std::min(16 * gib, round_down(bytes / 16, block_size));
}

Arena::Arena(std::size_t bytes, const SparsePoolFile& host_pool)
    // An arena is aligned to its size, up to 1 GiB: a larger alignment would make a small arena
    // reserve a large range for a moment.
    : range_(Mapping::reserve(bytes, std::min(gib, std::bit_floor(bytes)))),
      layout_(range_.address(), bytes, placed_bytes(bytes)),
      striped_end_(page_at_offset(host_pool.file().stripes().bytes())) {
  if (const int error =
          map_first_file(range_.address(), {{0}, bytes / page_size}, host_pool.file().descriptors(),
                         host_pool.views_permit_huge_pages()))
    throw_errno(error, "cannot map the host's pool");
}

std::vector<PageSpan> Arena::open_pages() const {
  std::vector<PageSpan> open;
  for (const auto& [first, count] : open_) open.push_back({first, count});
  return open;
}

PageSpan Arena::unit_of(PageIndex page) const {
  const std::uint64_t bytes =
      std::max<std::uint64_t>(unit_min, std::bit_floor(offset_of(page)) / units_per_doubling);
  return intersect(aligned_around({page, 1}, bytes / page_size), {{0}, striped_end_.value});
}

PageSpan Arena::open_rest() const {
  const auto rest = open_.find(striped_end_);
  return {striped_end_, rest == open_.end() ? 0 : rest->second};
}

// To open pages, each device process has to be asked. So each step at least doubles what is open,
// and the number of steps stays logarithmic.
PageSpan Arena::open_rest_until(PageIndex end) const {
  const std::uint64_t wanted = std::max(end - striped_end_, 2 * open_rest().count);
  const std::uint64_t all = page_at_offset(layout_.row_bytes()) - striped_end_;
  return {striped_end_, std::min(round_up(wanted, gib / page_size), all)};
}

std::optional<PageSpan> Arena::next_to_open(PageSpan needed) const {
  // The first page that is not open.
  PageIndex page = needed.first;
  auto next = open_.upper_bound(page);
  if (next != open_.begin()) --next;
  for (; next != open_.end() && next->first <= page; ++next)
    page = std::max(page, next->first + next->second);
  if (page >= needed.end()) return std::nullopt;

  if (page >= striped_end_) {
    const PageIndex begin = open_rest().end();
    return PageSpan{begin, open_rest_until(needed.end()).end() - begin};
  }
  const PageIndex begin = unit_of(page).first;
  PageIndex end = unit_of(std::min(needed.end(), striped_end_) - 1).end();
  if (next != open_.end()) end = std::min(end, next->first);
  return PageSpan{begin, end - begin};
}

void Arena::note_opened(PageSpan pages) {
  const auto entry = open_.emplace(pages.first, pages.count).first;
  if (entry == open_.begin() || pages.first == striped_end_) return;
  auto& [first, count] = *std::prev(entry);
  if (first + count != pages.first) return;
  count += pages.count;
  open_.erase(entry);
}

}  // namespace wherry::impl
