// The managed memory that the program has in the place of ordinary memory. A region is one managed
// allocation of whole blocks (2 MiB). The program may unmap parts of a mapping, so a region has one
// or more pieces: the parts that the program still has.
//
// A region becomes private memory of the program, at the same addresses, before the program does
// something with it that managed memory cannot do; Linux then does what the program asks. If the
// program gives up addresses of the arena, they are never given back to Linux, which could place
// other memory there.
//
// Any thread may call, but no signal handler.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace wherry::run {

inline constexpr std::size_t page_bytes = 4096;
inline constexpr std::size_t block_bytes = std::size_t{2} << 20;

constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// Why memory became private, for the report.
enum class Reason {
  protection,
  remapping,
  locking,
  replacement,
  advice,
  fork,
  kernel_use,  // a thread runs on it, or Linux keeps a lock in it
  count
};

class ManagedRegions {
 public:
  struct Range {
    std::uintptr_t start = 0;
    std::uintptr_t end = 0;

    std::size_t bytes() const { return end - start; }
  };

  static ManagedRegions& instance();

  // Whether the address may be in a region: a quick test without a lock.
  bool may_contain(std::uintptr_t address) const {
    return address >= lowest_.load(std::memory_order_relaxed) &&
           address < highest_.load(std::memory_order_relaxed);
  }
  bool may_overlap(Range range) const {
    return range.end > lowest_.load(std::memory_order_relaxed) &&
           range.start < highest_.load(std::memory_order_relaxed);
  }

  // ---- Memory of malloc

  // Returns managed memory for an object of `bytes` > 0, aligned to blocks, with bytes of 0 if
  // `zeroed`. Returns null if there is none; then the caller uses ordinary memory.
  void* allocate_object(std::size_t bytes, bool zeroed) {
    return place_object(bytes, bytes, zeroed);
  }
  // Like allocate_object(), for an object that has grown to this size and may grow further. Wherry
  // cannot move pages to other addresses, so it reserves addresses after the object. Otherwise an
  // array that grows step by step would be copied at each step.
  void* allocate_grown_object(std::size_t bytes) {
    return place_object(bytes, with_room(bytes), /*zeroed=*/false);
  }
  void* allocate_grown_mapping(std::size_t bytes) { return place_mapping(bytes, with_room(bytes)); }
  // Returns how many bytes the object may use, at least as many as were asked for, or nullopt if no
  // object of allocate_object() begins there.
  std::optional<std::size_t> object_bytes(const void* object) const;
  // Changes an object's size in place. Returns false if it does not fit or is no such object.
  bool resize_object(const void* object, std::size_t bytes);
  // Returns false if no such object begins there.
  bool free_object(void* object);

  // ---- Mappings

  void* allocate_mapping(std::size_t bytes) { return place_mapping(bytes, bytes); }
  // Takes the range away from the program. Returns parts outside of all regions in `outside`.
  void unmap(Range range, std::vector<Range>& outside) { take(range, false, outside); }
  // Makes a piece longer in place, with zeros. Returns false if there is no room.
  bool grow_mapping(Range now, std::size_t bytes);
  // Whether the whole range is in pieces that are still managed.
  bool is_managed(Range range) const;
  // Whether the range overlaps a region, also where the program has unmapped it.
  bool overlaps(Range range) const;
  // Whether the program has unmapped a part of the range that is in a region: a hole.
  bool has_hole(Range range) const;
  // The parts of the range that the program still has.
  std::vector<Range> pieces_in(Range range) const;
  // Returns the region with this address if it is private, which it stays; otherwise nullopt.
  std::optional<Range> private_region(std::uintptr_t address) const;
  // Called after Linux has mapped something else for the program in the range: holes in private
  // regions are pieces again.
  void note_mapped(Range range);
  // Makes the pages zero. Returns false, and does nothing, if not all of them are managed.
  [[nodiscard]] bool free_pages(Range range);
  // Makes every region that overlaps the range private. In a forked child the copies of such
  // regions become anonymous memory. Returns false without enough memory; some may be private then.
  [[nodiscard]] bool make_private(Range range, Reason reason);
  // Makes all copies in a forked child anonymous. Without enough memory some stay as they are.
  void make_copies_anonymous();
  // Called after Linux has moved private memory of a region away: keeps its addresses.
  void note_moved_away(Range range);

  // ---- fork()

  // Locks out all other calls, and returns the managed pieces. A region that contains the calling
  // thread's stack becomes private first. end_fork_in_parent() or end_fork_in_child() must follow.
  std::vector<Range> begin_fork();
  // Called between begin and end: makes all regions private, so that Linux copies them.
  void make_all_private();
  void end_fork_in_parent();
  // In the child all regions are private memory.
  void end_fork_in_child();

  // ---- The report

  struct Counts {
    std::uint64_t objects = 0;   // allocated by malloc and its kin
    std::uint64_t mappings = 0;  // by mmap
    std::uint64_t bytes = 0;     // the program's now
    std::uint64_t most_bytes = 0;
    std::uint64_t made_private[static_cast<int>(Reason::count)] = {};
    std::uint64_t refused = 0;  // large requests that found no managed memory
    char refusal[512] = {};     // the reason for the first of them
  };
  Counts counts() const;

 private:
  struct Region {
    std::size_t bytes = 0;
    std::size_t live = 0;  // the bytes of its pieces
    std::size_t used = 0;  // of its object
    bool is_object = false;
    bool is_private = false;
    bool is_copy = false;  // in a forked child: mapped from the file with the copies
  };
  struct Piece {
    std::uintptr_t end = 0;
    std::uintptr_t region = 0;  // start of its region
  };
  using Regions = std::map<std::uintptr_t, Region>;
  using Pieces = std::map<std::uintptr_t, Piece>;
  // A freed object that keeps its pages for the next one.
  struct Kept {
    std::uintptr_t start = 0;
    std::size_t bytes = 0;
  };

  // `moved` says that Linux has already unmapped the range.
  void take(Range range, bool moved, std::vector<Range>& outside);
  static std::size_t with_room(std::size_t bytes) {
    return bytes > SIZE_MAX / 2 ? bytes : bytes + bytes / 2;
  }
  // The region gets at least `reserved` bytes.
  void* place_object(std::size_t bytes, std::size_t reserved, bool zeroed);
  void* place_mapping(std::size_t bytes, std::size_t reserved);

  // Each of these requires the lock.
  void enter(std::uintptr_t start, std::size_t bytes, std::size_t used, bool is_object);
  Pieces::const_iterator piece_at(std::uintptr_t address) const;
  // Calls f(part, start of its region) for each part of a piece in the range.
  template <typename F>
  void for_each_part(Range range, const F& f) const;
  // How many bytes of the range are in pieces that are still managed.
  std::size_t managed_bytes(Range range) const;
  bool make_region_private(std::uintptr_t start, Region& region, Reason reason);
  // Replaces a region's mappings of the file with the copies by anonymous memory.
  bool make_anonymous(std::uintptr_t start, Region& region);
  // The starts of the regions that overlap the range.
  std::vector<std::uintptr_t> regions_in(Range range) const;
  void note_bytes(std::ptrdiff_t change);

  std::uintptr_t allocate_region(std::size_t bytes);
  std::optional<Kept> take_kept(std::size_t bytes);

  mutable std::mutex lock_;
  Regions regions_;
  Pieces pieces_;
  std::vector<Kept> kept_;
  std::size_t kept_bytes_ = 0;
  Counts counts_;
  std::atomic<bool> has_copies_{false};
  std::atomic<std::uintptr_t> lowest_{UINTPTR_MAX};
  std::atomic<std::uintptr_t> highest_{0};
};

// Makes the regions of this memory private, because Linux or the C library uses it in a way that
// needs ordinary memory. Without enough memory they stay as they are.
void keep_private(const void* memory, std::size_t bytes);

}  // namespace wherry::run
