// Owned address ranges: reserved ones, and shared mappings of files.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace wherry::impl {

class PageTable;  // os/memory/page_table.h

// A process's access to a range of memory.
enum class Access : std::uint32_t {
  none,
  read,
  write,  // and read
};

// Whether children that the process forks get a mapping, too.
enum class InChildren : std::uint32_t {
  absent,
  shared,  // the same pages
};

// A part of a file that is mapped.
struct FilePart {
  int fd = -1;
  std::uint64_t offset = 0;
  std::size_t bytes = 0;
};

class Mapping {
 public:
  Mapping() = default;
  // Reserves inaccessible address space of at least `bytes`, aligned to `alignment` (a power of
  // two, at least a page). Throws std::system_error.
  static Mapping reserve(std::size_t bytes, std::size_t alignment);
  // Zero pages for bookkeeping, created at their first access; bookkeeping that may grow large uses
  // SparseMemory. Not inherited by fork(), not in core dumps. Throws std::system_error.
  static Mapping zeroed(std::size_t bytes);
  // Maps a whole file, shared, for the library's own use. Not inherited by fork(), not in core
  // dumps. Aligned like the arena, so that one fault maps all neighbours that move together:
  // Linux maps aligned 64 KiB at a time, and a run that straddles two such windows costs one fault
  // more in every copy (a third of the copy's time). `huge_pages`: an access that creates a page
  // creates a huge one where the file has them. Throws std::system_error.
  static Mapping file_alias(int fd, std::size_t bytes, std::size_t alignment, Access access,
                            bool huge_pages = false);
  // Makes a part of an alias accessible that was mapped by map_closed() and prepare_view(). Returns
  // 0 or an errno.
  [[nodiscard]] int open_alias(std::uint64_t offset, std::size_t bytes, Access access) const;

  Mapping(Mapping&& other) noexcept
      : start_(std::exchange(other.start_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(start_, other.start_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping();

  std::byte* data() const { return start_; }
  std::uintptr_t address() const { return reinterpret_cast<std::uintptr_t>(start_); }
  std::size_t size() const { return bytes_; }

 private:
  Mapping(void* start, std::size_t bytes) : start_(static_cast<std::byte*>(start)), bytes_(bytes) {}

  std::byte* start_ = nullptr;
  std::size_t bytes_ = 0;
};

// A place in the address space, and the part of a file that it maps.
struct FileView {
  std::uintptr_t start = 0;
  std::size_t bytes = 0;
  std::uint64_t offset = 0;  // in the file
};

// This is how every processor maps its pool, in two steps.
//
// map_closed(): maps the part shared, in place of whatever is mapped there, inaccessible. Returns 0
// or an errno.
//
// prepare_view(): excludes such a mapping from fork() and from core dumps. `huge_pages` permits
// huge page-table entries, only where Linux does not fill the file's holes (os/files/hole_probe.h).
// Required before the range becomes accessible. Returns 0 or an errno.
[[nodiscard]] int map_closed(std::uintptr_t start, const FilePart& part);
[[nodiscard]] int prepare_view(std::uintptr_t start, std::size_t bytes, bool huge_pages);

// Moves a mapping over whatever is mapped at `to`, atomically for threads that use that meanwhile.
// Returns 0, or an errno with nothing changed.
[[nodiscard]] int move_mapping(void* from, std::size_t bytes, std::uintptr_t to);

// Maps the view of the file in place of whatever is mapped there, atomically for threads that use
// it meanwhile, and without page-table entries. From then on it is registered with `userfaultfd`;
// the call returns only after the resulting event has been read from there. If `userfaultfd` is -1,
// the view is inaccessible instead. Returns 0, or an errno with nothing changed: ENOMEM if the
// process has as many mappings as it may have.
[[nodiscard]] int replace_pool_view(const FileView& view, int fd, int userfaultfd, bool huge_pages);

// Accesses [start, start + bytes), 2 MiB of a shared mapping that is backed by a huge page of the
// file, so that Linux maps it by one huge entry, unless a page table exists there already.
// `process`: another process, or 0 for this one. MADV_COLLAPSE is not used: it waits until every
// CPU of the machine has run a kernel thread. Returns 0 or an errno: EINVAL, EPERM or ENOSYS if
// Linux does not support it or does not permit it.
[[nodiscard]] int enter_huge_page(pid_t process, std::uintptr_t start, std::size_t bytes);

// How Linux maps part of a view that no userfaultfd tracks.
enum class HugeEntries : std::uint32_t {
  unchanged,
  // By small entries: the view lets Linux neither merge pages nor create a huge page at an access.
  forbidden,
  // By one entry, for a huge page of the file.
  entered,
};
// Changes access to part of a view that no userfaultfd tracks. `forbidden` takes effect before the
// call returns, so the file may lose pages there afterwards. `entered` requires 2 MiB, access to
// write, and that the file holds all of these pages until huge entries are forbidden. `page_table`
// is this process's. Returns 0 or an errno. ENOMEM: the process has its maximum of mappings, and a
// part of the change may have been made. EBUSY: the file has no huge page there; access was given,
// and huge entries are forbidden. Async-signal-safe.
[[nodiscard]] int change_view_access(std::uintptr_t start, std::size_t bytes, Access access,
                                     HugeEntries entries, const PageTable& page_table);

// Removes the page-table entries for part of a view: the next access faults, although the file
// holds the page. The range is registered with `userfaultfd`, and its write protection stays. If
// `userfaultfd` is -1, the range becomes inaccessible instead. Returns 0 or an errno.
[[nodiscard]] int forget_entries(std::uintptr_t start, std::size_t bytes, int userfaultfd);

// Excludes this memory from core dumps. Linux dumps all readable memory, whether it was accessed or
// not: it visits every page of a mapping, which takes hours for terabytes, and creates a page for
// each hole of a file that no userfaultfd tracks. Returns 0 or an errno.
[[nodiscard]] int leave_out_of_core_dumps(std::uintptr_t start, std::size_t bytes);

// Maps part of a file, shared, in place of whatever is mapped there, atomically for threads that
// use it meanwhile. `huge_pages`: as for prepare_view(). Returns 0, or an errno with nothing
// changed.
[[nodiscard]] int map_file_range(std::uintptr_t start, std::size_t bytes, int fd,
                                 std::uint64_t offset, Access access, bool huge_pages,
                                 InChildren children = InChildren::absent);
// Turns the range into inaccessible address space, like Mapping::reserve(), whatever is mapped
// there. Returns 0 or an errno.
[[nodiscard]] int unmap_file_range(std::uintptr_t start, std::size_t bytes);

// Whether any of the range is locked in memory (mlock).
[[nodiscard]] bool is_locked(std::uintptr_t start, std::size_t bytes);
// Locks the range in memory. Returns 0 or an errno: EPERM or ENOMEM if more is locked than
// permitted.
[[nodiscard]] int lock_in_memory(std::uintptr_t start, std::size_t bytes);
// Enters every page in the page table, for reading. Returns 0 or an errno.
[[nodiscard]] int populate_to_read(std::uintptr_t start, std::size_t bytes);
// Whether the page may be written. Async-signal-safe.
[[nodiscard]] bool is_writable(std::uintptr_t page);

// Changes access. Returns 0 or an errno: ENOMEM if the process has as many mappings as it may have.
// Async-signal-safe.
[[nodiscard]] int set_access(std::uintptr_t start, std::size_t bytes, Access access);

}  // namespace wherry::impl
