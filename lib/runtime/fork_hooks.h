// Runs before and after the application's fork(): gives the child private copies of memory that
// this library turned into shared mappings, and closes what would keep the parent's resources
// alive.
//
// The thread that forks calls before() and after() in the parent, after_in_child() in the child,
// which has only this thread. No lock is held from before() to after(): the application's own fork
// handlers may take locks.
#pragma once

#include "runtime/host_memory.h"
#include "runtime/module_variables.h"

namespace wherry::impl {

class ForkHooks {
 public:
  // Both outlive this.
  ForkHooks(HostMemory& host_memory, ModuleVariables& variables)
      : host_memory_(host_memory), variables_(variables) {}

  void before();
  void after();
  void after_in_child();

 private:
  AdoptedRanges& adopted() { return host_memory_.adopted(); }

  HostMemory& host_memory_;
  ModuleVariables& variables_;
};

}  // namespace wherry::impl
