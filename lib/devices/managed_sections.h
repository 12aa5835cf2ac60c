// The variables of this process's modules that are to be managed memory: those in a section of a
// name that wherry.h gives them. The modules know nothing of this library.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "devices/kernel_module.h"
#include "os/memory/address_map.h"

namespace wherry::impl {

// Such a section of a loaded module.
struct ManagedSection {
  std::string module;  // its path, or "the program"
  AddressRange pages;  // whole ones, which nothing else of the module is in
  // Disjoint, in order; each begins with a page. Together they cover all of the pages: what no
  // symbol table names is one variable as far as it goes, and so are variables that share a page.
  std::vector<AddressRange> variables;
};

// Finds each section once. One thread at a time.
class ManagedSections {
 public:
  // Of modules that have been loaded since the last call. They stay loaded from now on. Says in the
  // log which variables cannot be managed memory.
  std::vector<ManagedSection> take_new();
  // All writable memory of the module of this address, as if it were such sections; its own ones
  // are then not found any more. Memory that the loader has made read-only is not writable.
  std::vector<ManagedSection> take_module(std::uintptr_t address);
  // Whether modules may have been loaded since then.
  bool may_have_new() const { return ModuleCounts::now() != seen_; }

 private:
  ModuleCounts seen_;
  // The program headers of modules that were looked into, and of those that stay for ever.
  std::vector<std::uintptr_t> known_;
  std::vector<std::uintptr_t> kept_;
};

}  // namespace wherry::impl
