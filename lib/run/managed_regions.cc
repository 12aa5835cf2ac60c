#include "run/managed_regions.h"

#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <wherry/wherry.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <thread>

#include "run/own_calls.h"
#include "run/session.h"

namespace wherry::run {
namespace {

// The most bytes of one freed object, and of all, that keep their pages for the next objects, as
// malloc keeps freed memory: the pages need not be faulted in again.
constexpr std::size_t kept_each_max = std::size_t{64} << 20;
constexpr std::size_t kept_all_max = std::size_t{256} << 20;

using Lock = std::lock_guard<std::mutex>;
using Range = ManagedRegions::Range;

CUdeviceptr pointer_to(std::uintptr_t address) {
  return static_cast<CUdeviceptr>(address);
}

// Takes the addresses from the program and keeps them from Linux. `how` is MAP_FIXED, or
// MAP_FIXED_NOREPLACE if Linux may have placed other memory there meanwhile.
void hold(Range range, int how = MAP_FIXED) {
  ::mmap(reinterpret_cast<void*>(range.start), range.bytes(), PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | how, -1, 0);
}

// Whether Linux would refuse so much memory, unless it is told to overcommit always.
bool exceeds_machine(std::size_t bytes) {
  struct sysinfo machine {};
  return ::sysinfo(&machine) == 0 &&
         bytes / machine.mem_unit > machine.totalram + machine.totalswap;
}

// Whether the calling thread's stack is in this range.
bool is_on_stack(std::uintptr_t start, std::uintptr_t end) {
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  return here >= start && here < end;
}

}  // namespace

ManagedRegions& ManagedRegions::instance() {
  // Never destroyed: the program allocates and frees until its end.
  alignas(ManagedRegions) static std::byte place[sizeof(ManagedRegions)];
  static ManagedRegions* const made = new (place) ManagedRegions;
  return *made;
}

// ---- Regions and pieces

std::uintptr_t ManagedRegions::allocate_region(std::size_t bytes) {
  CUdeviceptr start = 0;
  if (exceeds_machine(bytes)) return 0;
  if (!use_context() || cuMemAllocManaged(&start, bytes, CU_MEM_ATTACH_GLOBAL) != CUDA_SUCCESS) {
    const Lock lock(lock_);
    if (counts_.refused++ == 0)
      std::snprintf(counts_.refusal, sizeof counts_.refusal, "%s", wherryGetLastErrorMessage());
    return 0;
  }
  return start;
}

void ManagedRegions::enter(std::uintptr_t start, std::size_t bytes, std::size_t used,
                           bool is_object) {
  regions_[start] = {bytes, used, used, is_object, false};
  pieces_[start] = {is_object ? start + bytes : start + used, start};
  lowest_ = std::min(lowest_.load(), start);
  highest_ = std::max(highest_.load(), start + bytes);
  ++(is_object ? counts_.objects : counts_.mappings);
  note_bytes(static_cast<std::ptrdiff_t>(used));
}

void ManagedRegions::note_bytes(std::ptrdiff_t change) {
  counts_.bytes += static_cast<std::uint64_t>(change);
  counts_.most_bytes = std::max(counts_.most_bytes, counts_.bytes);
}

ManagedRegions::Pieces::const_iterator ManagedRegions::piece_at(std::uintptr_t address) const {
  auto next = pieces_.upper_bound(address);
  if (next == pieces_.begin()) return pieces_.end();
  --next;
  return address < next->second.end ? next : pieces_.end();
}

template <typename F>
void ManagedRegions::for_each_part(Range range, const F& f) const {
  auto piece = piece_at(range.start);
  if (piece == pieces_.end()) piece = pieces_.lower_bound(range.start);
  for (; piece != pieces_.end() && piece->first < range.end; ++piece)
    f(Range{std::max(range.start, piece->first), std::min(range.end, piece->second.end)},
      piece->second.region);
}

std::vector<std::uintptr_t> ManagedRegions::regions_in(Range range) const {
  std::vector<std::uintptr_t> found;
  auto region = regions_.upper_bound(range.start);
  if (region != regions_.begin()) --region;
  for (; region != regions_.end() && region->first < range.end; ++region)
    if (region->first + region->second.bytes > range.start) found.push_back(region->first);
  return found;
}

bool ManagedRegions::overlaps(Range range) const {
  const OwnCalls own;
  const Lock lock(lock_);
  return !regions_in(range).empty();
}

bool ManagedRegions::has_hole(Range range) const {
  const OwnCalls own;
  const Lock lock(lock_);
  std::size_t in_regions = 0;
  std::size_t in_pieces = 0;
  for (const std::uintptr_t start : regions_in(range))
    in_regions +=
        std::min(range.end, start + regions_.at(start).bytes) - std::max(range.start, start);
  for_each_part(range, [&](Range part, std::uintptr_t) { in_pieces += part.bytes(); });
  return in_pieces < in_regions;
}

std::vector<Range> ManagedRegions::pieces_in(Range range) const {
  const OwnCalls own;
  const Lock lock(lock_);
  std::vector<Range> found;
  for_each_part(range, [&](Range part, std::uintptr_t) { found.push_back(part); });
  return found;
}

std::optional<Range> ManagedRegions::private_region(std::uintptr_t address) const {
  const OwnCalls own;
  const Lock lock(lock_);
  for (const std::uintptr_t start : regions_in({address, address + 1}))
    if (const Region& region = regions_.at(start); region.is_private)
      return Range{start, start + region.bytes};
  return std::nullopt;
}

void ManagedRegions::note_mapped(Range range) {
  const OwnCalls own;
  const Lock lock(lock_);
  for (const std::uintptr_t start : regions_in(range)) {
    Region& region = regions_.at(start);
    std::uintptr_t at = std::max(range.start, start);
    const std::uintptr_t end = std::min(range.end, start + region.bytes);
    std::vector<Range> pieces;
    for_each_part({at, end}, [&](Range part, std::uintptr_t) { pieces.push_back(part); });
    pieces.push_back({end, end});
    for (const Range& piece : pieces) {
      if (at < piece.start) {
        pieces_[at] = {piece.start, start};
        region.live += piece.start - at;
        note_bytes(static_cast<std::ptrdiff_t>(piece.start - at));
      }
      at = piece.end;
    }
  }
}

std::size_t ManagedRegions::managed_bytes(Range range) const {
  std::size_t bytes = 0;
  for_each_part(range, [&](Range part, std::uintptr_t region) {
    if (!regions_.at(region).is_private) bytes += part.bytes();
  });
  return bytes;
}

bool ManagedRegions::is_managed(Range range) const {
  const OwnCalls own;
  const Lock lock(lock_);
  return managed_bytes(range) == range.bytes();
}

// ---- Memory of malloc

std::optional<ManagedRegions::Kept> ManagedRegions::take_kept(std::size_t bytes) {
  const Lock lock(lock_);
  auto best = kept_.end();
  for (auto kept = kept_.begin(); kept != kept_.end(); ++kept) {
    if (kept->bytes < bytes || kept->bytes > bytes + bytes / 2 + block_bytes) continue;
    if (best == kept_.end() || kept->bytes < best->bytes) best = kept;
  }
  if (best == kept_.end()) return std::nullopt;
  const Kept taken = *best;
  kept_bytes_ -= taken.bytes;
  kept_.erase(best);
  return taken;
}

void* ManagedRegions::place_object(std::size_t bytes, std::size_t reserved, bool zeroed) {
  if (reserved > SIZE_MAX - block_bytes) return nullptr;
  const OwnCalls own;
  Kept memory{0, round_up(reserved, block_bytes)};
  if (const auto kept = take_kept(memory.bytes)) {
    memory = *kept;
    if (zeroed) std::memset(reinterpret_cast<void*>(memory.start), 0, bytes);
  } else {
    memory.start = allocate_region(memory.bytes);
    if (memory.start == 0) return nullptr;
  }
  const Lock lock(lock_);
  enter(memory.start, memory.bytes, bytes, /*is_object=*/true);
  return reinterpret_cast<void*>(memory.start);
}

std::optional<std::size_t> ManagedRegions::object_bytes(const void* object) const {
  const OwnCalls own;
  const Lock lock(lock_);
  const auto found = regions_.find(reinterpret_cast<std::uintptr_t>(object));
  if (found == regions_.end() || !found->second.is_object) return std::nullopt;
  return std::min(round_up(found->second.used, page_bytes), found->second.bytes);
}

bool ManagedRegions::resize_object(const void* object, std::size_t bytes) {
  const OwnCalls own;
  const Lock lock(lock_);
  const auto found = regions_.find(reinterpret_cast<std::uintptr_t>(object));
  if (found == regions_.end() || !found->second.is_object) return false;
  Region& region = found->second;
  if (bytes > region.bytes || bytes < region.bytes / 4) return false;
  note_bytes(static_cast<std::ptrdiff_t>(bytes) - static_cast<std::ptrdiff_t>(region.used));
  region.used = region.live = bytes;
  return true;
}

bool ManagedRegions::free_object(void* object) {
  const OwnCalls own;
  const auto start = reinterpret_cast<std::uintptr_t>(object);
  bool is_private = false;
  {
    const Lock lock(lock_);
    const auto found = regions_.find(start);
    if (found == regions_.end() || !found->second.is_object) return false;
    const Region region = found->second;
    is_private = region.is_private;
    note_bytes(-static_cast<std::ptrdiff_t>(region.used));
    regions_.erase(found);
    pieces_.erase(start);
    if (is_private) {
      hold({start, start + region.bytes});
    } else if (region.bytes <= kept_each_max && kept_bytes_ + region.bytes <= kept_all_max) {
      kept_.push_back({start, region.bytes});
      kept_bytes_ += region.bytes;
      return true;
    }
  }
  if (!is_private) (void)cuMemFree(pointer_to(start));
  return true;
}

// ---- Mappings

void* ManagedRegions::place_mapping(std::size_t bytes, std::size_t reserved) {
  if (reserved > SIZE_MAX - block_bytes) return nullptr;
  const OwnCalls own;
  const std::size_t whole = round_up(reserved, block_bytes);
  const std::uintptr_t start = allocate_region(whole);
  if (start == 0) return nullptr;
  const Lock lock(lock_);
  enter(start, whole, round_up(bytes, page_bytes), /*is_object=*/false);
  return reinterpret_cast<void*>(start);
}

void ManagedRegions::take(Range range, bool moved, std::vector<Range>& outside) {
  const OwnCalls own;
  struct Part {
    Range range;
    std::uintptr_t region;
  };
  std::vector<Part> parts;
  std::vector<std::uintptr_t> ended;
  {
    const Lock lock(lock_);
    for_each_part(range, [&](Range part, std::uintptr_t region) {
      parts.push_back({part, region});
    });
    // Parts outside of all regions are for the caller. Holes in regions are unmapped already.
    std::uintptr_t at = range.start;
    for (const std::uintptr_t start : regions_in(range)) {
      if (at < start) outside.push_back({at, start});
      at = start + regions_.at(start).bytes;
    }
    if (at < range.end) outside.push_back({at, range.end});
    for (const auto& [part, start] : parts) {
      Region& region = regions_.at(start);
      // Keeps what is left of the piece on both sides.
      const auto piece = std::prev(pieces_.upper_bound(part.start));
      const std::uintptr_t piece_end = piece->second.end;
      if (piece->first < part.start)
        piece->second.end = part.start;
      else
        pieces_.erase(piece);
      if (part.end < piece_end) pieces_[part.end] = {piece_end, start};
      const std::size_t gone = std::min(part.bytes(), region.live);
      region.live -= gone;
      note_bytes(-static_cast<std::ptrdiff_t>(gone));
      if (region.is_private) {
        hold(part, moved ? MAP_FIXED_NOREPLACE : MAP_FIXED);
      } else if (region.live != 0) {
        (void)wherryFreePages(pointer_to(part.start), part.bytes());
      } else {
        ended.push_back(start);
      }
      if (region.live == 0) regions_.erase(start);
    }
  }
  for (const std::uintptr_t start : ended) (void)cuMemFree(pointer_to(start));
}

bool ManagedRegions::grow_mapping(Range now, std::size_t bytes) {
  const OwnCalls own;
  const Lock lock(lock_);
  const auto piece = piece_at(now.start);
  if (piece == pieces_.end() || piece->second.end != now.end) return false;
  const std::uintptr_t start = piece->second.region;
  Region& region = regions_.at(start);
  const std::uintptr_t end = now.start + bytes;
  const auto next = std::next(piece);
  const std::uintptr_t limit =
      next != pieces_.end() && next->second.region == start ? next->first : start + region.bytes;
  if (region.is_object || region.is_private || end > limit) return false;
  region.live += end - now.end;
  note_bytes(static_cast<std::ptrdiff_t>(end - now.end));
  pieces_[piece->first].end = end;
  return true;
}

bool ManagedRegions::free_pages(Range range) {
  const OwnCalls own;
  const Lock lock(lock_);
  if (managed_bytes(range) != range.bytes()) return false;
  for_each_part(range, [&](Range part, std::uintptr_t) {
    (void)wherryFreePages(pointer_to(part.start), part.bytes());
  });
  return true;
}

bool ManagedRegions::make_private(Range range, Reason reason) {
  const OwnCalls own;
  const Lock lock(lock_);
  bool all = true;
  for (const std::uintptr_t start : regions_in(range))
    all &= make_region_private(start, regions_.at(start), reason);
  return all;
}

bool ManagedRegions::make_anonymous(std::uintptr_t start, Region& region) {
  for (auto piece = pieces_.lower_bound(start);
       piece != pieces_.end() && piece->second.region == start; ++piece) {
    const std::size_t bytes = piece->second.end - piece->first;
    auto* const place = reinterpret_cast<std::byte*>(piece->first);
    void* const made = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED) return false;
    // Pages of zeros stay absent.
    for (std::size_t at = 0; at < bytes; at += page_bytes) {
      const std::byte* const page = place + at;
      if (page[0] == std::byte{} && std::memcmp(page, page + 1, page_bytes - 1) == 0) continue;
      std::memcpy(static_cast<std::byte*>(made) + at, page, page_bytes);
    }
    if (::mremap(made, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, place) == MAP_FAILED)
      return false;
  }
  region.is_copy = false;
  return true;
}

void ManagedRegions::make_copies_anonymous() {
  if (!has_copies_.load(std::memory_order_relaxed)) return;
  const OwnCalls own;
  const Lock lock(lock_);
  has_copies_ = false;
  for (auto& [start, region] : regions_)
    if (region.is_copy && !make_anonymous(start, region)) has_copies_ = true;
}

bool ManagedRegions::make_region_private(std::uintptr_t start, Region& region, Reason reason) {
  if (region.is_copy) return make_anonymous(start, region);
  if (region.is_private) return true;
  CUresult result = CUDA_SUCCESS;
  const auto call = [&] { result = wherryMakePrivate(pointer_to(start)); };
  // A thread cannot write to its own stack while that becomes private, so another one does it.
  if (is_on_stack(start, start + region.bytes))
    std::thread(call).join();
  else
    call();
  if (result != CUDA_SUCCESS) return false;
  region.is_private = true;
  ++counts_.made_private[static_cast<int>(reason)];
  // Holds the parts that the program had unmapped: they have become private memory, too.
  std::uintptr_t at = start;
  for (auto piece = pieces_.lower_bound(start);
       piece != pieces_.end() && piece->second.region == start; ++piece) {
    if (at < piece->first) hold({at, piece->first});
    at = piece->second.end;
  }
  if (at < start + region.bytes) hold({at, start + region.bytes});
  return true;
}

void ManagedRegions::note_moved_away(Range range) {
  std::vector<Range> outside;
  take(range, /*moved=*/true, outside);
}

// ---- fork()

std::vector<Range> ManagedRegions::begin_fork() {
  lock_.lock();
  // The child's handlers need a stack before they map the copies, so a stack becomes private.
  for (auto& [start, region] : regions_)
    if (is_on_stack(start, start + region.bytes))
      (void)make_region_private(start, region, Reason::fork);
  std::vector<Range> managed;
  for (const auto& [start, piece] : pieces_)
    if (!regions_.at(piece.region).is_private) managed.push_back({start, piece.end});
  return managed;
}

void ManagedRegions::make_all_private() {
  for (auto& [start, region] : regions_) (void)make_region_private(start, region, Reason::fork);
}

void ManagedRegions::end_fork_in_parent() {
  lock_.unlock();
}

void ManagedRegions::end_fork_in_child() {
  for (auto& [start, region] : regions_) {
    region.is_copy = region.is_copy || !region.is_private;
    region.is_private = true;
    if (region.is_copy) has_copies_ = true;
  }
  kept_.clear();
  kept_bytes_ = 0;
  lock_.unlock();
}

void keep_private(const void* memory, std::size_t bytes) {
  const auto start = reinterpret_cast<std::uintptr_t>(memory);
  ManagedRegions& regions = ManagedRegions::instance();
  if (const Range range{start, start + bytes}; regions.may_overlap(range))
    (void)regions.make_private(range, Reason::kernel_use);
}

ManagedRegions::Counts ManagedRegions::counts() const {
  const OwnCalls own;
  const Lock lock(lock_);
  return counts_;
}

}  // namespace wherry::run
