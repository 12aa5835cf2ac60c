// The creation of the pages of a range and of their page-table entries, as by an access to each
// page, but without a signal: what an access would get as SIGSEGV or SIGBUS is an errno here.
#pragma once

#include <cstddef>
#include <cstdint>

namespace wherry::impl {

enum class Touch {
  to_read,
  to_write
};

// Changes no contents. Returns 0 or an errno, with the pages before the first failure touched:
// ENOMEM if a part is not mapped or there is no memory, EINVAL if the mapping does not permit the
// access, EFAULT if Linux has no page for it, as beyond the end of a file. Before Linux 5.14 all of
// these but a lack of memory are EFAULT. Async-signal-safe.
[[nodiscard]] int touch_pages(std::uintptr_t start, std::size_t bytes, Touch touch);

}  // namespace wherry::impl
