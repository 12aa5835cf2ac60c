#include "os/memory/mapping.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

#include "base/page.h"
#include "os/files/fd.h"
#include "os/kernel_abi.h"
#include "os/memory/folio_split.h"
#include "os/memory/page_table.h"
#include "os/memory/touch.h"
#include "os/memory/userfaultfd.h"

namespace wherry::impl {
namespace {

void* map_anonymous(std::size_t bytes, const char* what) {
  void* start =
      ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) throw_errno(errno, what);
  return start;
}

int protection_of(Access access) {
  if (access == Access::none) return PROT_NONE;
  return access == Access::read ? PROT_READ : PROT_READ | PROT_WRITE;
}

// Properties that every mapping of the library has before it becomes accessible:
//
//  - Linux does not lock it. In a program that called mlockall(MCL_FUTURE), each new mapping
//    would otherwise be populated when it becomes accessible, with a page for every hole of a file.
//  - It has small pages only, unless Linux is known to keep the file's holes. A huge page
//    that fills holes of a pool would make pages resident that the library did not create.
//    Linux without transparent huge pages returns EINVAL.
//  - fork() does not copy it, unless children are to share it.
int keep_private_to_us(void* start, std::size_t bytes, bool huge_pages,
                       InChildren children = InChildren::absent) {
  if (::munlock(start, bytes) != 0) return errno;
  if (!huge_pages && ::madvise(start, bytes, MADV_NOHUGEPAGE) != 0 && errno != EINVAL) return errno;
  if (children == InChildren::shared) return 0;
  return ::madvise(start, bytes, MADV_DONTFORK) == 0 ? 0 : errno;
}

// Gives these properties to a mapping that is mostly holes, and excludes it from core dumps.
int keep_sparse(void* start, std::size_t bytes, bool huge_pages) {
  if (const int error = keep_private_to_us(start, bytes, huge_pages)) return error;
  return leave_out_of_core_dumps(reinterpret_cast<std::uintptr_t>(start), bytes);
}

// madvise() reports too many mappings by EAGAIN, mprotect() by ENOMEM.
int errno_of_split() {
  return errno == EAGAIN ? ENOMEM : errno;
}

// Linux without transparent huge pages returns EINVAL.
int forbid_huge_pages(std::uintptr_t start, std::size_t bytes) {
  if (::madvise(reinterpret_cast<void*>(start), bytes, MADV_NOHUGEPAGE) == 0 || errno == EINVAL)
    return 0;
  return errno_of_split();
}

// Whether one entry maps the range, after an access to its first page alone.
bool is_huge_entry(const PageTable& page_table, std::uintptr_t start, std::size_t bytes) {
  if (const auto entries = page_table.entries_of(start))
    return *entries == PageTable::Entries::huge;
  // This Linux cannot report the kind of an entry. The middle page, which was not accessed, is
  // mapped only as part of a huge page, unless a thread accesses it at this moment. If Linux does
  // not permit a look, the entry is taken to be huge.
  return page_table.is_mapped(start + bytes / 2).value_or(true);
}

}  // namespace

Mapping Mapping::reserve(std::size_t bytes, std::size_t alignment) {
  const std::size_t padded = bytes + alignment;
  void* start = map_anonymous(padded, "cannot reserve address space");
  (void)::munlock(start, padded);
  const auto address = reinterpret_cast<std::uintptr_t>(start);
  const std::uintptr_t aligned = round_up(address, alignment);
  if (aligned != address) ::munmap(start, aligned - address);
  const std::uintptr_t end = aligned + bytes;
  if (end != address + padded) ::munmap(reinterpret_cast<void*>(end), address + padded - end);
  return Mapping(reinterpret_cast<void*>(aligned), bytes);
}

Mapping Mapping::zeroed(std::size_t bytes) {
  Mapping mapping(map_anonymous(bytes, "cannot map bookkeeping memory"), bytes);
  int error = keep_sparse(mapping.data(), bytes, /*huge_pages=*/false);
  if (error == 0) error = set_access(mapping.address(), bytes, Access::write);
  if (error != 0) throw_errno(error, "cannot map bookkeeping memory");
  return mapping;
}

Mapping Mapping::file_alias(int fd, std::size_t bytes, std::size_t alignment, Access access,
                            bool huge_pages) {
  Mapping mapping = reserve(bytes, alignment);
  int error = map_closed(mapping.address(), {fd, 0, bytes});
  if (error == 0) error = prepare_view(mapping.address(), bytes, huge_pages);
  if (error == 0) error = mapping.open_alias(0, bytes, access);
  if (error != 0) throw_errno(error, "cannot map a pool");
  return mapping;
}

int Mapping::open_alias(std::uint64_t offset, std::size_t bytes, Access access) const {
  if (const int error = set_access(address() + offset, bytes, access)) return error;
  // Each page is read once and then punched. Without this hint the punch first marks the page as
  // recently used, which costs 3 to 10 % of the time of a move. If Linux refuses the hint,
  // moves are only slower.
  ::madvise(data() + offset, bytes, MADV_SEQUENTIAL);
  return 0;
}

Mapping::~Mapping() {
  if (start_ != nullptr) ::munmap(start_, bytes_);
}

int map_closed(std::uintptr_t start, const FilePart& part) {
  return ::mmap(reinterpret_cast<void*>(start), part.bytes, PROT_NONE,
                MAP_SHARED | MAP_FIXED | MAP_NORESERVE, part.fd,
                static_cast<off_t>(part.offset)) == MAP_FAILED
             ? errno
             : 0;
}

int move_mapping(void* from, std::size_t bytes, std::uintptr_t to) {
  // Avoids mremap(), which UCX, the library with which MPI sends, replaces in the program's memory.
  // Before version 1.14 the function of UCX drops the new address.
  return ::syscall(SYS_mremap, from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) == -1 ? errno
                                                                                            : 0;
}

int prepare_view(std::uintptr_t start, std::size_t bytes, bool huge_pages) {
  return keep_sparse(reinterpret_cast<void*>(start), bytes, huge_pages);
}

int replace_pool_view(const FileView& view, int fd, int userfaultfd, bool huge_pages) {
  const std::size_t bytes = view.bytes;
  // The view is mapped elsewhere first: the place itself must never lack its registration, or an
  // access would fill a hole of the file. It stays inaccessible until it is registered, or
  // mlockall(MCL_FUTURE) would fill the holes.
  void* aside = ::mmap(nullptr, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd,
                       static_cast<off_t>(view.offset));
  if (aside == MAP_FAILED) return errno;
  int error = keep_sparse(aside, bytes, huge_pages);
  const auto address = reinterpret_cast<std::uintptr_t>(aside);
  if (error == 0 && userfaultfd >= 0) {
    error = Userfaultfd::register_range(userfaultfd, address, bytes);
    if (error == 0) error = set_access(address, bytes, Access::write);
  }
  if (error == 0) error = move_mapping(aside, bytes, view.start);
  if (error != 0) ::munmap(aside, bytes);
  return error;
}

int enter_huge_page(pid_t process, std::uintptr_t start, std::size_t bytes) {
  void* place = reinterpret_cast<void*>(start);
  if (process != 0) {
    // To read one byte, Linux maps the page or huge page that contains it.
    std::byte read{};
    const iovec here{&read, 1};
    const iovec there{place, 1};
    return ::process_vm_readv(process, &here, 1, &there, 1, 0) == 1 ? 0 : errno;
  }
  // A remaining page table would be filled with small entries; since Linux 6.14 this call frees it.
  (void)remove_entries(start, bytes);
  return touch_pages(start, page_size, Touch::to_write);
}

int change_view_access(std::uintptr_t start, std::size_t bytes, Access access, HugeEntries entries,
                       const PageTable& page_table) {
  if (entries != HugeEntries::entered) {
    if (const int error = set_access(start, bytes, access)) return error;
    return entries == HugeEntries::forbidden ? forbid_huge_pages(start, bytes) : 0;
  }
  void* place = reinterpret_cast<void*>(start);
  const int hindered = ::madvise(place, bytes, MADV_HUGEPAGE) == 0 ? 0 : errno_of_split();
  int error = hindered == ENOMEM ? ENOMEM : set_access(start, bytes, access);
  if (error == 0) {
    if (hindered == 0 && enter_huge_page(0, start, bytes) == 0 &&
        is_huge_entry(page_table, start, bytes))
      return 0;
    error = EBUSY;
  }
  // Linux would merge small pages in the background, perhaps while some of them leave.
  const int refused = forbid_huge_pages(start, bytes);
  return refused != 0 ? refused : error;
}

int forget_entries(std::uintptr_t start, std::size_t bytes, int userfaultfd) {
  if (userfaultfd < 0) return set_access(start, bytes, Access::none);
  return remove_entries(start, bytes);
}

int leave_out_of_core_dumps(std::uintptr_t start, std::size_t bytes) {
  return ::madvise(reinterpret_cast<void*>(start), bytes, MADV_DONTDUMP) == 0 ? 0 : errno;
}

int map_file_range(std::uintptr_t start, std::size_t bytes, int fd, std::uint64_t offset,
                   Access access, bool huge_pages, InChildren children) {
  // The file is mapped elsewhere first, so that a mapping that cannot be hidden from children
  // changes nothing, and readers of the place always find either the old or the new content.
  void* aside =
      ::mmap(nullptr, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, static_cast<off_t>(offset));
  if (aside == MAP_FAILED) return errno;
  int error = keep_private_to_us(aside, bytes, huge_pages, children);
  if (error == 0) error = set_access(reinterpret_cast<std::uintptr_t>(aside), bytes, access);
  if (error == 0) error = move_mapping(aside, bytes, start);
  if (error != 0) ::munmap(aside, bytes);
  return error;
}

int unmap_file_range(std::uintptr_t start, std::size_t bytes) {
  return ::mmap(reinterpret_cast<void*>(start), bytes, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED
             ? errno
             : 0;
}

bool is_locked(std::uintptr_t start, std::size_t bytes) {
  // On memory without a file behind it, this call has no effect except its result.
  return ::msync(reinterpret_cast<void*>(start), bytes, MS_ASYNC | MS_INVALIDATE) != 0 &&
         errno == EBUSY;
}

int lock_in_memory(std::uintptr_t start, std::size_t bytes) {
  return ::mlock(reinterpret_cast<void*>(start), bytes) == 0 ? 0 : errno;
}

int populate_to_read(std::uintptr_t start, std::size_t bytes) {
  return touch_pages(start, bytes, Touch::to_read);
}

bool is_writable(std::uintptr_t page) {
  return touch_pages(page, page_size, Touch::to_write) == 0;
}

int set_access(std::uintptr_t start, std::size_t bytes, Access access) {
  return ::mprotect(reinterpret_cast<void*>(start), bytes, protection_of(access)) == 0 ? 0 : errno;
}

}  // namespace wherry::impl
