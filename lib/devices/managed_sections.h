// Finds the variables in this process's modules that are to be managed memory: those in a section
// whose name wherry.h defines. The modules need not be linked with this library.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "devices/kernel_module.h"
#include "os/memory/address_map.h"

namespace wherry::impl {

// The section of managed variables of a loaded module.
struct ManagedSection {
  std::string module;  // its path, or "the program"
  AddressRange pages;  // whole pages that hold nothing else of the module
  // Disjoint, in order, each starting at a page; together they cover all pages. Memory that no
  // symbol table names is one variable, and variables that share a page are one.
  std::vector<AddressRange> variables;
};

// Finds each section once. One thread at a time may call.
class ManagedSections {
 public:
  // The sections of modules that were loaded since the last call. These modules stay loaded from
  // now on. Logs which variables cannot be managed memory.
  std::vector<ManagedSection> take_new();
  // Returns all writable memory of the module that contains this address, as if it were managed
  // sections. take_new() does not return this module's own sections any more. Memory that the
  // loader has made read-only (RELRO) is not writable.
  std::vector<ManagedSection> take_module(std::uintptr_t address);
  // Whether modules may have been loaded since take_new().
  bool may_have_new() const { return ModuleCounts::now() != seen_; }

 private:
  ModuleCounts seen_;
  // Addresses of the program headers: of all modules seen by take_new(), and of modules that stay
  // loaded for ever.
  std::vector<std::uintptr_t> known_;
  std::vector<std::uintptr_t> kept_;
};

}  // namespace wherry::impl
