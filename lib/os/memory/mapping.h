// Owned address ranges: reserved ones, and stretches of a file mapped shared.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace wherry::impl {

// What a process may do with its memory.
enum class Access : std::uint32_t {
  none,
  read,
  write,  // and read
};

class Mapping {
 public:
  Mapping() = default;
  // Inaccessible address space of at least `bytes`, aligned to `alignment` (a power of two, pages
  // at least). Throws std::system_error.
  static Mapping reserve(std::size_t bytes, std::size_t alignment);
  // Zero pages for bookkeeping, created as they are touched; what may grow large is a SparseMemory.
  // Not inherited by fork(), not in core dumps. Throws.
  static Mapping zeroed(std::size_t bytes);
  // The whole of a file, shared, for the library's own use. Not inherited by fork(), not in core
  // dumps. Aligned like the arena, so that a touch maps the neighbours that are moved with it: the
  // kernel maps aligned 64 KiB at a time, and a run that straddles two such windows costs a fault
  // more in every copy (a third of the copy's time). Throws.
  static Mapping file_alias(int fd, std::size_t bytes, std::size_t alignment, Access access);

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

// A place in the address space and what it shows of a file.
struct FileView {
  std::uintptr_t start = 0;
  std::size_t bytes = 0;
  std::uint64_t offset = 0;  // in the file
};

// Maps the file shared there, accessible from the start up to `open_bytes` and inaccessible after,
// not inherited by fork() and not in core dumps: how every processor sees its pool. With
// `huge_pages` entries for huge pages are allowed; only where the kernel leaves the file's holes
// alone (MemoryFile::kernel_keeps_holes). Returns 0 or an errno.
[[nodiscard]] int map_pool_view(const FileView& view, std::size_t open_bytes, int fd,
                                bool huge_pages);

// Makes the place show this from now on, whatever is there, at once for threads that use it
// meanwhile, and with no page mapped yet. It is registered with `userfaultfd` from then on; the
// call returns only after the event of this has been read there. -1: it becomes inaccessible
// instead. Returns 0 or an errno, with nothing changed: ENOMEM, the process has as many mappings as
// it may have.
[[nodiscard]] int replace_pool_view(const FileView& view, int fd, int userfaultfd, bool huge_pages);

// Touches [start, start + bytes), 2 MiB of a shared mapping that a huge page of the file lies
// behind, so that Linux enters it in the page table by one entry, if no page table is there
// already. Of another process, or this one's where that is 0. Not by MADV_COLLAPSE, which waits
// until every CPU of the machine had time for a kernel thread. Returns 0 or an errno: EINVAL,
// EPERM, ENOSYS where the kernel does not offer that, or not to this process.
[[nodiscard]] int enter_huge_page(pid_t process, std::uintptr_t start, std::size_t bytes);

// Takes the entries for part of such a view out of the page table: the next touch faults, though
// the file holds the page. The range is registered with `userfaultfd`, whose write protection
// stays; -1: it becomes inaccessible instead. Returns 0 or an errno.
[[nodiscard]] int forget_entries(std::uintptr_t start, std::size_t bytes, int userfaultfd);

// Leaves this memory out of core dumps. Linux dumps what a process may read, access or not: it
// looks at every page of a mapping, which takes hours for terabytes, and creates a page for each
// hole of a file that no userfaultfd reports. Returns 0 or an errno.
[[nodiscard]] int leave_out_of_core_dumps(std::uintptr_t start, std::size_t bytes);

// Shows part of a file, shared, in place of whatever is mapped there, at once for threads that use
// it meanwhile; not inherited by fork(). `huge_pages` as for map_pool_view. Returns 0 or an errno,
// with nothing changed.
[[nodiscard]] int map_file_part(std::uintptr_t start, std::size_t bytes, int fd,
                                std::uint64_t offset, Access access, bool huge_pages);
// Makes it inaccessible address space, as reserve() has it, whatever is mapped there. Returns 0 or
// an errno.
[[nodiscard]] int unmap_file_part(std::uintptr_t start, std::size_t bytes);

// Whether the kernel keeps any of it in memory because somebody asked for that (mlock).
[[nodiscard]] bool is_locked(std::uintptr_t start, std::size_t bytes);
// Asks for it. Returns 0 or an errno: EPERM, ENOMEM, more than is permitted.
[[nodiscard]] int lock_in_memory(std::uintptr_t start, std::size_t bytes);
// Enters every page in the page table, to be read. Returns 0 or an errno.
[[nodiscard]] int populate_to_read(std::uintptr_t start, std::size_t bytes);
// Whether a page may be written. In a signal handler, too.
[[nodiscard]] bool is_writable(std::uintptr_t page);

// Changes access. Returns 0 or an errno: ENOMEM, the process has as many mappings as it may have.
// In a signal handler, too.
[[nodiscard]] int set_access(std::uintptr_t start, std::size_t bytes, Access access);

}  // namespace wherry::impl
