// Parts of Linux's interface that the headers of a supported system (Debian 12, or RHEL 9's C
// library) lack. The names are the library's own, because newer headers define the kernel's names,
// some as macros and some as types. The values are the kernel's, and never change.
#pragma once

#include <linux/userfaultfd.h>
#include <sys/ioctl.h>

namespace wherry::impl::abi {

// madvise(2): to populate since Linux 5.14, to collapse since 6.1.
inline constexpr int populate_read = 22;
inline constexpr int populate_write = 23;
inline constexpr int collapse = 25;

// memfd_create(2), since Linux 6.3.
inline constexpr unsigned memfd_executable = 0x10;

// userfaultfd: the four constants exist since Linux 5.19, 6.6, 6.4 and 6.1, in this order.
inline constexpr __u64 userfaultfd_feature_wp_shmem = __u64{1} << 12;
inline constexpr __u64 userfaultfd_feature_poison = __u64{1} << 14;
inline constexpr __u64 continue_write_protected = __u64{1} << 1;
inline constexpr unsigned long new_userfaultfd = _IO(0xAA, 0x00);  // of /dev/userfaultfd

struct Poison {
  uffdio_range range;
  __u64 mode;
  __s64 updated;
};
inline constexpr __u64 poison_dont_wake = __u64{1} << 0;
inline constexpr unsigned long userfaultfd_poison = _IOWR(UFFDIO, 0x08, Poison);

// A feature of io_uring since Linux 5.17.
inline constexpr unsigned uring_feature_cqe_skip = 1U << 11;

// A scan of /proc/PID/pagemap, since Linux 6.7.
struct PageRegion {
  __u64 start;
  __u64 end;
  __u64 categories;
};
struct PagemapScan {
  __u64 size;
  __u64 flags;
  __u64 start;
  __u64 end;
  __u64 walk_end;
  __u64 vec;
  __u64 vec_len;
  __u64 max_pages;
  __u64 category_inverted;
  __u64 category_mask;
  __u64 category_anyof_mask;
  __u64 return_mask;
};
inline constexpr unsigned long pagemap_scan = _IOWR('f', 16, PagemapScan);
inline constexpr __u64 page_is_present = __u64{1} << 3;
inline constexpr __u64 page_is_huge = __u64{1} << 6;

// /proc/PID/pagemap: the bits of a page's word (Linux's admin-guide/mm/pagemap.rst).
inline constexpr __u64 entry_is_present = __u64{1} << 63;
inline constexpr __u64 entry_frame = (__u64{1} << 55) - 1;

}  // namespace wherry::impl::abi
