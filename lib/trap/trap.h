// Traps: how an access to an absent or protected page of the arena is noticed and resolved, in the
// host and in the device processes. There is one trap in a process. Its kind is chosen when the
// library starts (trap_choice.h); the code above this layer is the same for all kinds.
//
// A Trap is the host's side. It has a mapper and a view changer for each processor, and produces
// the fault sources that the fault handlers read. A DeviceTrap is what a device process does.
//
// A new kind gets a value of TrapKind, a row and two cases in trap.cc, and a pair of files like
// mprotect_trap.h and .cc, or shares those of another kind.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/processor.h"
#include "os/files/fd.h"
#include "os/memory/userfaultfd.h"
#include "pages/arena_layout.h"
#include "trap/fault_board.h"
#include "trap/fault_source.h"
#include "trap/hole_filler.h"
#include "trap/mapper.h"
#include "trap/pool_view.h"
#include "trap/trapped_process.h"
#include "trap/view_changer.h"

namespace wherry::impl {

enum class TrapKind : std::uint8_t {
  userfaultfd,  // Linux queues a message for a fault handler, and the accessing thread sleeps
  mprotect,     // page protection: the accessing thread gets SIGSEGV
  sigbus,       // userfaultfd; in the host the accessing thread gets SIGBUS instead of a message
};

// A kind, and the permission that it uses.
struct TrapMode {
  TrapKind kind = TrapKind::userfaultfd;
  // How this process gets a userfaultfd; nullopt if the kind uses none.
  std::optional<UffdAccess> userfaultfd = UffdAccess::full;
};

// Constants of a kind.
struct TrapTraits {
  TrapKind kind;
  std::string_view name;  // as in WHERRY_TRAP
  bool uses_userfaultfd;  // to change page tables
  // In the host Linux sends a signal to the accessing thread, whose handler resolves the fault or
  // posts it on a FaultBoard. If not, Linux queues a message on the userfaultfd.
  bool signals_host;
  // In devices Linux sends such a signal, too, whose handler only posts the fault.
  bool signals_devices;
  // The processes map the arena accessible. If not, only the pages that the mapper enters are
  // accessible, and every change of access may split a mapping.
  bool opens_arena;
};
const TrapTraits& traits_of(TrapKind kind);
// All kinds, in the order of TrapKind.
std::span<const TrapTraits> all_trap_traits();

// Whether system calls on managed memory work wherever its pages are, as accesses do.
bool serves_system_calls(const TrapMode& mode);

// "userfaultfd", "userfaultfd in user mode only", "mprotect", "sigbus".
std::string to_string(const TrapMode& mode);

// Resolves a fault of the host in the thread that made the access. That thread calls it in the
// handler of the signal that it got, perhaps while it holds any lock of the program, so it must not
// allocate, wait or log. Returns false if the fault has to be posted to the fault handlers.
using InThreadResolver = bool (*)(const FaultMessage& message);

// The host's side. Built before the device processes are forked; lives as long as the process. The
// thread that starts the library calls attach_host(); the other functions may be called by any
// thread, detach_device() and attach_device() for one device by one thread at a time.
class Trap {
 public:
  struct Pool {
    HoleFiller* filler = nullptr;
    PoolFiles files;
  };
  struct Parts {
    TrapMode mode;
    const ArenaLayout* layout = nullptr;  // outlives the trap
    std::vector<Pool> pools;              // by processor, borrowed
    bool huge_pages = false;              // see prepare_view()
    // The most mappings that one process should have; 0: no limit.
    std::uint64_t mappings_budget = 0;

    std::vector<PoolFiles> pool_files() const;
  };

  virtual ~Trap() = default;

  virtual Mapper& mapper(Processor p) = 0;
  virtual ViewChanger& changer(Processor p) = 0;

  // From now on accesses to the layout's pages trap in that process. Both return the source of its
  // faults, and throw std::system_error.
  virtual std::shared_ptr<const FaultSource> attach_host() = 0;
  virtual std::shared_ptr<const FaultSource> attach_device(
      int device, std::shared_ptr<TrappedProcess> process) = 0;
  // The layout has gained these pages, which the host sees in its own pool: accesses to them trap
  // too. Throws std::system_error.
  virtual void attach_host_pages(const PlacedPages& placed) = 0;
  // Opens these pages of the arena in the host's view (trap/pool_view.h). Call it after
  // attach_host(). Returns 0 or an errno.
  [[nodiscard]] virtual int open_host(PageSpan pages) = 0;
  // To be called when the device's process has ended.
  virtual void detach_device(int device) = 0;
  // From now on threads of the host may call `resolver` when they get a signal for an access.
  virtual void serve_host(InThreadResolver resolver) = 0;
};

std::unique_ptr<Trap> make_trap(Trap::Parts parts);

// The device's side. Its agent thread makes the trap.
class DeviceTrap {
 public:
  struct Parts {
    TrapMode mode;
    const ArenaLayout* layout = nullptr;  // lives as long as the process
    // The process's own, shared with the host; lives as long as the process.
    FaultBoard* board = nullptr;
    Fd notifier;  // see BoardSource; empty if the kind of trap sends no signals here
  };

  virtual ~DeviceTrap() = default;

  // The userfaultfd with which this process's mappings are registered; the host gets it too. -1 if
  // the kind of trap uses none.
  virtual int userfaultfd() const = 0;
};

// Traps this process's accesses to its view of the arena. At most one trap in a process, which
// lives as long as the process. Throws std::system_error.
std::unique_ptr<DeviceTrap> make_device_trap(DeviceTrap::Parts parts);

}  // namespace wherry::impl
