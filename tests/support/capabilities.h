// What a test program may need of the machine before it makes sense to run it.
//
// Each test program is linked with one list of needs (the `needs` of its row in tests/meson.build);
// main() asks here and skips the program as a whole when one is missing. Asks the kernel itself,
// not the library under test.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace wherry::test {

// The needs of this program, separated by spaces; one definition per program, in needs.cc.
extern const char* const needs;

// Why `need` is not met here; nothing when it is. Known needs:
//   trap              whatever Wherry is to run on: userfaultfd in any mode, or
//   WHERRY_TRAP=mprotect
//   userfaultfd       userfaultfd in any mode
//   userfaultfd-full  also for faults taken inside system calls (root, or access to
//   /dev/userfaultfd)
//   root              effective user id 0
//   frame-numbers     /proc/self/pagemap shows physical frame numbers
//   nodes=N           at least N NUMA nodes with memory
// Throws std::invalid_argument for any other word.
std::optional<std::string> why_missing(std::string_view need);

// Whether the library is told to trap by page protection.
bool traps_by_protection();
// Whether system calls can be given managed memory that is elsewhere.
bool serves_system_calls();

}  // namespace wherry::test
