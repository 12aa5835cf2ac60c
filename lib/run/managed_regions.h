// The managed memory that the program has in the place of ordinary memory. A region is one managed
// allocation, of whole blocks of 2 MiB. Of a mapping the program may unmap parts, so a region has
// one or more pieces, which the program still has.
//
// A region may become private memory of the program, at the same addresses, because the program
// does with it what managed memory cannot do. Then Linux does all that the program asks. Addresses
// of the arena that the program gives up are never given back to Linux, which could place other
// memory there.
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

  // Managed memory for an object of `bytes` > 0, aligned to blocks. `zeroed`: its bytes are zero.
  // Null: there is none; the caller uses ordinary memory.
  void* allocate_object(std::size_t bytes, bool zeroed) {
    return place_object(bytes, bytes, zeroed);
  }
  // The same for an object or a mapping that has grown to this size, and may grow further: Wherry
  // cannot move pages to other addresses, so it reserves addresses after it. Otherwise a program
  // that lets an array grow step by step would have it copied at each step.
  void* allocate_grown_object(std::size_t bytes) {
    return place_object(bytes, with_room(bytes), /*zeroed=*/false);
  }
  void* allocate_grown_mapping(std::size_t bytes) { return place_mapping(bytes, with_room(bytes)); }
  // How many bytes the object may use, which is no less than was asked for; nothing: no object of
  // this kind begins there.
  std::optional<std::size_t> object_bytes(const void* object) const;
  // Changes an object's size where it is. False: it does not fit, or is no such object.
  bool resize_object(const void* object, std::size_t bytes);
  // False: no such object begins there.
  bool free_object(void* object);

  // ---- Mappings

  void* allocate_mapping(std::size_t bytes) { return place_mapping(bytes, bytes); }
  // Takes the range away from the program. Parts outside of all regions are left for the caller.
  void unmap(Range range, std::vector<Range>& outside) { take(range, false, outside); }
  // Makes a piece longer where it is, with zeros. False: there is no room.
  bool grow_mapping(Range now, std::size_t bytes);
  // Whether the whole range is in pieces that are still managed.
  bool is_managed(Range range) const;
  // Whether the range has a part of a region, also one that the program has unmapped.
  bool overlaps(Range range) const;
  // Whether the program has unmapped a part of the range that is in a region: a hole.
  bool has_hole(Range range) const;
  // The parts of the range that the program still has.
  std::vector<Range> pieces_in(Range range) const;
  // The region that has this address, if it is private, which it stays; nothing: there is none.
  std::optional<Range> private_region(std::uintptr_t address) const;
  // Linux has mapped something else for the program there: holes in private regions are pieces
  // again.
  void note_mapped(Range range);
  // The pages read as zeros from now on. False, and nothing is done: not all of them are managed.
  [[nodiscard]] bool free_pages(Range range);
  // Makes every region that overlaps the range private. In a forked child the copies of such
  // regions become anonymous memory. False: there is not enough memory; then some may be private.
  [[nodiscard]] bool make_private(Range range, Reason reason);
  // The same for all copies in a forked child. Without enough memory some stay as they are.
  void make_copies_anonymous();
  // Private memory of a region has been moved elsewhere by Linux: keeps its addresses.
  void note_moved_away(Range range);

  // ---- fork()

  // Locks out all other calls, and returns the managed pieces. If the calling thread's stack is in
  // one of their regions, that one is private then. One of the others follows, in the parent or in
  // the child.
  std::vector<Range> begin_fork();
  // Between them: makes all regions private, so that Linux copies them.
  void make_all_private();
  void end_fork_in_parent();
  // All regions are private memory.
  void end_fork_in_child();

  // ---- The report

  struct Counts {
    std::uint64_t objects = 0;   // allocated by malloc and its kin
    std::uint64_t mappings = 0;  // by mmap
    std::uint64_t bytes = 0;     // the program's now
    std::uint64_t most_bytes = 0;
    std::uint64_t made_private[static_cast<int>(Reason::count)] = {};
    std::uint64_t refused = 0;  // large requests for which no managed memory was to be had
    char refusal[512] = {};     // why, for the first of them
  };
  Counts counts() const;

 private:
  struct Region {
    std::size_t bytes = 0;
    std::size_t live = 0;  // the bytes of its pieces
    std::size_t used = 0;  // of an object
    bool is_object = false;
    bool is_private = false;
    bool is_copy = false;  // in a forked child: mapped from the file with the copies
  };
  struct Piece {
    std::uintptr_t end = 0;
    std::uintptr_t region = 0;  // its start
  };
  using Regions = std::map<std::uintptr_t, Region>;
  using Pieces = std::map<std::uintptr_t, Piece>;
  // Freed objects that keep their pages for the next ones.
  struct Kept {
    std::uintptr_t start = 0;
    std::size_t bytes = 0;
  };

  // `moved`: Linux has unmapped the range already.
  void take(Range range, bool moved, std::vector<Range>& outside);
  static std::size_t with_room(std::size_t bytes) {
    return bytes > SIZE_MAX / 2 ? bytes : bytes + bytes / 2;
  }
  // `reserved`: how many bytes the region has at least.
  void* place_object(std::size_t bytes, std::size_t reserved, bool zeroed);
  void* place_mapping(std::size_t bytes, std::size_t reserved);

  // Each of these requires the lock.
  void enter(std::uintptr_t start, std::size_t bytes, std::size_t used, bool is_object);
  Pieces::const_iterator piece_at(std::uintptr_t address) const;
  // Calls f(Range, start of its region) for each part of a piece in the range.
  template <typename F>
  void for_each_part(Range range, const F& f) const;
  // How many bytes of the range are in pieces that are still managed.
  std::size_t managed_bytes(Range range) const;
  bool make_region_private(std::uintptr_t start, Region& region, Reason reason);
  // Replaces what is mapped from the file with the copies by anonymous memory.
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

// What the program has there is used by Linux or by the C library in ways that need ordinary
// memory: regions there become private. Without enough memory they stay as they are.
void keep_private(const void* memory, std::size_t bytes);

}  // namespace wherry::run
