// Settings for copying memory ahead of its use: how many threads copy, into pages of which size.
// Turns the environment into a value, or one line that says what is wrong; no system calls.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "os/files/memory_file.h"

namespace wherry::impl {

struct CopySettings {
  unsigned copiers =
      1;  // the first works whenever there is something to do, the others on idle CPUs
  unsigned pool_files = 1;  // files of each pool, written at the same time; a power of two
  HugePages huge_pages = HugePages::if_possible;  // of the pools
  bool consolidates = true;  // blocks that came in parts become huge pages, too
};

// The value of WHERRY_HUGE_PAGES. If it is unset in a rank of MPI where faults in system calls are
// not served: "never". Other ranks may read this process's memory by process_vm_readv(2). Before a
// part of a huge page leaves, Linux removes the entries of all of it for a moment, and such a read
// fails (docs/mpi.md).
std::string huge_pages_setting(bool serves_system_calls);

// `copiers` and `huge_pages` are the values of WHERRY_COPIERS (1 to 16; by default as many as there
// are CPUs, at most 16) and WHERRY_HUGE_PAGES ("auto", the same as empty, "arriving" or "never").
std::variant<CopySettings, std::string> choose_copy_settings(std::string_view copiers,
                                                             std::string_view huge_pages,
                                                             std::size_t cpus);

}  // namespace wherry::impl
