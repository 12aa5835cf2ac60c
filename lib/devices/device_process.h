// The host's handle of one device process: a fork of this program in which kernels run on worker
// threads.
//
// start() returns once the device has mapped its pool at the arena's address, and traps its own
// touches of it; nothing in the device may touch the arena before run() is called, so the host
// listens first. The device decides nothing: it runs launches from shared slots and obeys the
// agent's commands. It ends when the host process ends, however that ends.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/lock.h"
#include "memory/page_owners.h"
#include "os/files/fd.h"
#include "os/memory/address_map.h"
#include "os/memory/mapping.h"
#include "os/memory/userfaultfd.h"
#include "pages/arena_layout.h"
#include "trap/fault_board.h"

namespace wherry::impl {

struct DeviceProcessOptions {
  int ordinal = 0;
  const ArenaLayout* layout = nullptr;  // outlives the process
  std::size_t arena_open = 0;  // bytes from the base that are readable and writable at once
  std::uintptr_t annex_base =
      0;  // of memory that never moves, see map_file(); nothing is mapped at first
  std::size_t annex_size = 0;
  std::vector<AddressRange>
      withheld;               // memory of the program that it shares otherwise, or not at all
  std::vector<int> pool_fds;  // borrowed: every processor's pool, which the device may come to see
  std::size_t own_pool = 0;   // which of them is mapped shared at arena_base
  bool huge_pages = false;    // as map_pool_view has it
  int workers = 1;
  PageOwnersView page_owners;                 // empty: kernels cannot touch ahead of system calls
  std::vector<int> cpus;                      // workers run on these; empty: anywhere
  UffdAccess uffd_access = UffdAccess::full;  // none: mprotect traps
  // How long the host, while it runs, waits for the answer to a command.
  std::uint64_t command_limit_ns = 5'000'000'000;
};

using KernelFunction = void (*)(const void* args, std::size_t begin, std::size_t end);

// Of launches; lower numbers go first.
inline constexpr int least_priority = 0;
inline constexpr int greatest_priority = -5;

// One launch as posted. `address` is the kernel's address in the device process, from
// resolve_kernel().
struct LaunchRequest {
  std::uint64_t id = 0;  // given back on completion
  std::uintptr_t address = 0;
  const void* args = nullptr;
  std::size_t args_size = 0;
  std::size_t items = 0;
  int priority = 0;  // which launch a free worker takes first
};

// Why a device process ended, as far as it could say itself.
struct DeviceFailure {
  enum class Kind {
    illegal_address,  // SIGSEGV or SIGBUS in a kernel: `address`
    signal,           // another fatal signal: `signal`
    exception,        // a kernel threw: `what`
    exited,           // a kernel called exit(): `signal` is the code
    lost,             // ended without a word: killed, out of memory
  };
  Kind kind = Kind::lost;
  int signal = 0;
  std::uintptr_t address = 0;
  std::uintptr_t kernel = 0;    // address of the kernel that was running, 0 if none
  std::uint64_t launch_id = 0;  // of that launch
  std::string what;
};

class DeviceProcess {
 public:
  // Forks the device and waits (at most 5 s) until it has mapped its arena and sent what its faults
  // are heard by. Throws std::system_error.
  static std::unique_ptr<DeviceProcess> start(const DeviceProcessOptions& options);

  // Ends the process if it still runs: asks, then kills after 1 s; returns when it is gone (reaped
  // where it is our child). Also done by the destructor. Any thread.
  void stop();
  // The same for one that does not answer, and the log says so.
  void give_up();
  // Ends it at once and waits for nothing. Where the program may not send it a signal any more (it
  // has changed its credentials), the device hears that by its socket.
  void kill();
  // Waits for the end of one that was killed, at most a second of running time, and reaps it.
  void wait_for_end();
  ~DeviceProcess();

  pid_t pid() const;
  int pidfd() const;          // readable once the process has ended
  int completion_fd() const;  // eventfd, readable when launches have finished

  // What the host listens to for the device's faults: its fresh userfaultfd (no UFFDIO_API yet), or
  // without one the bell of fault_board(); once.
  Fd take_fault_fd();
  // Where its threads post their faults without a userfaultfd.
  FaultBoard& fault_board();
  // Lets the device start its workers and touch the arena. Throws std::system_error.
  void run();

  // Posts a launch; false when all slots are busy (then wait for completion_fd). Any thread.
  [[nodiscard]] bool try_post(const LaunchRequest& request);
  // Ids of launches that have finished since the last call, in no order; clears completion_fd. One
  // thread at a time.
  std::vector<std::uint64_t> take_completed();

  // Agent commands, serialized, each with the limit `command_limit_ns`. Return 0 or an errno
  // (ESRCH: the process is gone; ETIMEDOUT).
  [[nodiscard]] int open_arena(std::size_t bytes);  // makes [base, base + bytes) accessible
  [[nodiscard]] int forbid(std::uintptr_t address,
                           std::size_t bytes);  // PROT_NONE: touches end in SIGSEGV
  // Makes the device see the pool pool_fds[owner] at the place; returns when its userfaultfd, if
  // any, has been read.
  [[nodiscard]] int change_view(const FileView& view, std::size_t owner);
  // The layout has these pages, too, from now on: the device sees its own pool there, whatever was
  // there, and faults. Returns as change_view.
  [[nodiscard]] int place(const PlacedPages& placed);
  // Takes the device's entries for these pages of the arena out of its page table; at most
  // ViewChanger::pages_max.
  [[nodiscard]] int forget_entries(std::span<const std::uint64_t> pages);
  // Makes the device see part of a file at a place in the annex; nothing there any more.
  [[nodiscard]] int map_file(std::uintptr_t address, std::size_t bytes, int fd,
                             std::uint64_t offset, Access access);
  [[nodiscard]] int unmap_file(std::uintptr_t address, std::size_t bytes);
  // Has the module of this address, and what it needs, at the same addresses in the device, as it
  // is here now; nothing changes if the device has it already. Nothing: done, or the process is
  // gone. Otherwise one line that says why not.
  std::optional<std::string> adopt_module(std::uintptr_t address);
  // The kernel's address in the device. Returns nullopt if the module is not known to be there:
  // load_module_of() first. Waits for no module.
  std::optional<std::uintptr_t> find_kernel(KernelFunction kernel);
  // Has the device load the module of a kernel that was loaded here after the fork, and waits until
  // its constructors have run, as long as the device lives. Other commands go on meanwhile. Returns
  // 0 or an errno (ENOEXEC: the address lies in no loaded module, or the device cannot load it;
  // ESRCH; ETIMEDOUT). A module with managed variables must have been adopted.
  [[nodiscard]] int load_module_of(KernelFunction kernel);
  // Both.
  std::optional<std::uintptr_t> resolve_kernel(KernelFunction kernel);

  // Whether the calling thread has the credentials that the device was started with: kernels run
  // with those.
  bool has_credentials_of_caller() const;

  // After pidfd() is readable: what happened.
  DeviceFailure failure() const;

  struct State;

 private:
  explicit DeviceProcess(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// "symbol+offset (module)" of a code address of this program, for log lines.
std::string describe_code_address(std::uintptr_t address);

}  // namespace wherry::impl
