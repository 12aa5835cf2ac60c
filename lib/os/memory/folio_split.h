// Has Linux split folios (os/memory/page_frames.h) of an in-memory file without a change of their
// contents.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace wherry::impl {

// Has Linux split each folio that lies partly inside and partly outside this range of a shared
// mapping (MADV_COLD). Linux does so where the range's page table, and no other one, has entries
// for the folio, and nobody else holds a reference to it. Otherwise it does nothing and reports no
// error. A split removes all entries of the folio from the page table, so the caller can see it
// there (PageTable::is_mapped). `process`: another process, or 0 for this one. Returns 0 or an
// errno: EPERM or ENOSYS if another process's mappings must not be, or cannot be, changed (that
// needs CAP_SYS_NICE). Tried on Linux 5.10, 6.1, 6.12, 6.18 and 7.2.
[[nodiscard]] int split_folios(pid_t process, std::uintptr_t start, std::size_t bytes);

// Removes the entries for this range of a shared mapping from this process's page table. The file
// keeps its pages. Returns 0 or an errno.
[[nodiscard]] int remove_entries(std::uintptr_t start, std::size_t bytes);

}  // namespace wherry::impl
