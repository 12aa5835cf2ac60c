// What a test program may need of the machine.
//
// WHERRY_TEST_NEEDS has the needs of a test, separated by spaces (the `needs` of its row in
// tests/meson.build). main() checks them here, and skips the test if one is missing. The checks ask
// Linux, not the library under test.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace wherry::test {

// Returns why `need` is not met here, or nothing if it is met. Known needs:
// trap              any trap that Wherry can use: userfaultfd in any mode, or
//                   WHERRY_TRAP=mprotect
// userfaultfd       userfaultfd in any mode
// userfaultfd-full  userfaultfd also for faults taken inside system calls (root, or access to
//                   /dev/userfaultfd)
// root              effective user id 0
// frame-numbers     /proc/self/pagemap shows physical frame numbers
// memory-policies   mbind and get_mempolicy
// nodes=N           at least N NUMA nodes with memory
// Throws std::invalid_argument for any other word.
std::optional<std::string> why_missing(std::string_view need);

// Whether the environment selects the protection trap.
bool traps_by_protection();
// Whether faults inside system calls are answered, so that they can get managed memory that is at
// another processor: in this process, and in devices.
bool serves_system_calls();
bool devices_serve_system_calls();

}  // namespace wherry::test
