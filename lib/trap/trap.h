// Which kinds of traps there are, and what the rest of the library has to know of each.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "os/memory/userfaultfd.h"

namespace wherry::impl {

// How an access to an absent or protected page of the arena is noticed and resolved. A new kind
// gets a value here and a row in trap.cc.
enum class TrapKind : std::uint8_t {
  userfaultfd,  // Linux queues a message for a fault handler, and the thread sleeps
  mprotect,     // page protection: the thread gets SIGSEGV
};

// A kind, and the permission that it uses.
struct TrapMode {
  TrapKind kind = TrapKind::userfaultfd;
  // How this process gets a userfaultfd; nullopt: the kind uses none.
  std::optional<UffdAccess> userfaultfd = UffdAccess::full;
};

// Constants of a kind.
struct TrapTraits {
  TrapKind kind;
  std::string_view name;  // as in WHERRY_TRAP
  bool uses_userfaultfd;  // to change page tables
  // Linux sends a signal to the accessing thread, whose handler posts the fault on a FaultBoard.
  // False: Linux queues a message on the userfaultfd.
  bool posts_faults;
  // The processes map the arena accessible. False: only the pages that the mapper enters are
  // accessible, and every change of access may split a mapping.
  bool opens_arena;
  bool permits_huge_pages;  // in the pools
};
const TrapTraits& traits_of(TrapKind kind);
// All kinds, in the order of TrapKind.
std::span<const TrapTraits> all_trap_traits();

// Whether system calls on managed memory work wherever its pages are, as accesses do.
bool serves_system_calls(const TrapMode& mode);

// "userfaultfd", "userfaultfd in user mode only", "mprotect".
std::string to_string(const TrapMode& mode);

}  // namespace wherry::impl
