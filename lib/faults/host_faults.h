// What a thread of the host does when it gets SIGSEGV in the arena: answers its own fault where
// that is easy, else posts it to the daemon's handlers and waits. There is one arena in a process,
// and signal handlers have no other way to it.
#pragma once

#include <cstdint>
#include <memory>

#include "faults/fault_service.h"
#include "trap/fault_source.h"

namespace wherry::impl {

class HostFaults {
 public:
  // From now on, until let_go(), which `layout` outlives. Throws std::system_error.
  static std::shared_ptr<const FaultSource> catch_faults(const ArenaLayout& layout);
  static void let_go();
  // Who faults may have this one answer; it lives as long as the process.
  static void serve(FaultService& service);
};

}  // namespace wherry::impl
