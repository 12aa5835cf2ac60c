// mlockall() in a program that uses the library. Linux populates every page that it locks: in the
// library's views of pools, which are mostly holes, that would create terabytes of pages, and the
// pools would contain pages that the page state does not record. So the program's mappings are
// locked one by one, and the library's are skipped. mlockall(MCL_FUTURE) needs no such care: the
// library unlocks each of its mappings before making it accessible (os/memory/mapping.cc). Code
// that makes the system call directly is not covered.
#pragma once

namespace wherry::impl {

// Does what mlockall(flags) does; `next` is the C library's mlockall().
int lock_all_but_the_librarys(int flags, int (*next)(int));

}  // namespace wherry::impl
