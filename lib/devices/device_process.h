// The host's handle of one device process: a fork of this program in which kernels run on worker
// threads.
//
// start() returns when the device has mapped its pool at the arena's address and traps its own
// accesses to it. run() starts its workers. Call it after the host has started its own threads:
// most addresses that the workers' stacks get are then in use in the host, too, so the host loads
// no module there later. The device decides nothing: it runs launches from shared slots, and its
// agent executes the host's commands. It ends when the host process ends, whatever the reason.
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
#include "pages/arena_layout.h"
#include "trap/pool_view.h"
#include "trap/trap.h"
#include "trap/trapped_process.h"

namespace wherry::impl {

struct DeviceProcessOptions {
  int ordinal = 0;
  const ArenaLayout* layout = nullptr;  // outlives the process
  std::vector<PageSpan> arena_open;     // the pages that are open from the start (trap/pool_view.h)
  bool arena_accessible = true;  // open pages may be accessed, unless the trap says otherwise
  // The annex, for memory that never moves, see map_file(); nothing is mapped there at first.
  std::uintptr_t annex_base = 0;
  std::size_t annex_size = 0;
  // Memory of the program that the device must not keep from the fork: the device maps it in
  // another way, or not at all.
  std::vector<AddressRange> withheld;
  // The pools of all processors: the device may have to map each of them.
  std::vector<PoolFiles> pools;
  std::size_t own_pool = 0;  // the pool that is mapped at the arena's base
  bool huge_pages = false;   // see prepare_view()
  int workers = 1;
  // Tells which pages the device may access. If it is empty, kernels cannot make the buffers of a
  // system call accessible before the call (memory/touch.h).
  PageOwnersView page_owners;
  std::vector<int> cpus;  // CPUs that workers may run on; empty: any
  TrapMode trap;
  // How long the host waits for the answer to a command, unless Linux delays the agent (see
  // AgentLink::send). Time in which the host is stopped does not count.
  std::uint64_t command_limit_ns = 5'000'000'000;
};

using KernelFunction = void (*)(const void* args, std::size_t begin, std::size_t end);

// Priorities of launches; lower numbers run first.
inline constexpr int least_priority = 0;
inline constexpr int greatest_priority = -5;

// One launch, as posted. `address` is the kernel's address in the device process, from
// find_kernel().
struct LaunchRequest {
  std::uint64_t id = 0;  // returned on completion
  std::uintptr_t address = 0;
  const void* args = nullptr;
  std::size_t args_size = 0;
  std::size_t items = 0;
  int priority = 0;  // a free worker takes launches of higher priority first
};

// Why a device process ended, if it could report that itself.
struct DeviceFailure {
  enum class Kind {
    illegal_address,  // SIGSEGV or SIGBUS in a kernel: `address`
    signal,           // another fatal signal: `signal`
    exception,        // a kernel threw: `what`
    assertion,        // an assertion of a kernel failed: `what`
    failed,           // a kernel reported that it cannot go on: `what`
    exited,           // a kernel called exit(): `signal` is the code
    lost,             // ended without a report: killed, or out of memory
  };
  Kind kind = Kind::lost;
  int signal = 0;
  std::uintptr_t address = 0;
  std::uintptr_t kernel = 0;    // address of the kernel that was running; 0: none
  std::uint64_t launch_id = 0;  // of the launch of that kernel
  std::string what;
};

class DeviceProcess final : public TrappedProcess {
 public:
  // Forks the device and waits (at most 5 s) until it has mapped its arena and traps its accesses.
  // Throws std::system_error.
  static std::unique_ptr<DeviceProcess> start(const DeviceProcessOptions& options);

  // Ends the process if it still runs: asks it to quit, and kills it after 1 s. Returns when it has
  // ended, and has been reaped if it is a child of this process. The destructor calls this. Any
  // thread may call.
  void stop();
  // Ends a device that does not answer, as stop() does, and writes a log line.
  void give_up() override;
  // Kills the process without waiting. If the program may no longer signal it (it has changed its
  // credentials), shuts down the socket instead, which the device notices.
  void kill() override;
  // After kill(): waits for the end, at most one second of running time, and reaps the process.
  void wait_for_end();
  ~DeviceProcess() override;

  pid_t pid() const override;
  int pidfd() const override;
  int completion_fd() const;  // eventfd, readable when launches have finished

  Fd take_userfaultfd() override;
  FaultBoard& fault_board() override;
  const Fd& fault_notifier() const override;
  // Starts the workers. To be called once, after the start. Throws std::system_error.
  void run();

  // Posts a launch. Returns false when all slots are busy; then wait for completion_fd(). Any
  // thread may call.
  [[nodiscard]] bool try_post(const LaunchRequest& request);
  // Returns the ids of launches that have finished since the last call, in no order, and clears
  // completion_fd(). One thread at a time may call.
  std::vector<std::uint64_t> take_completed();
  // Whether take_completed() would return some. Only reads shared memory. Any thread may call.
  bool has_completed() const;

  // Commands to the agent: one at a time, with the time limit `command_limit_ns`. forbid() and
  // forget_entries() wait a second at most, and not for an overdue process. Commands return 0 or an
  // errno (ESRCH: the process has ended; ETIMEDOUT: no answer).
  // Opens these pages of the arena (trap/pool_view.h). Ends a process that does not answer.
  [[nodiscard]] int open_arena(PageSpan pages);
  [[nodiscard]] int forbid(std::uintptr_t address, std::size_t bytes) override;
  [[nodiscard]] int change_view(const FileView& view, std::size_t owner) override;
  // Tells the device that the layout has gained these pages. The device replaces what it had at
  // these addresses by its own pool, and traps accesses there.
  [[nodiscard]] int place(const PlacedPages& placed);
  [[nodiscard]] int forget_entries(std::span<const PageSpan> runs) override;
  bool is_overdue() override;
  // Maps part of a file in the device's annex; unmap_file() removes it.
  [[nodiscard]] int map_file(std::uintptr_t address, std::size_t bytes, int fd,
                             std::uint64_t offset, Access access);
  [[nodiscard]] int unmap_file(std::uintptr_t address, std::size_t bytes);
  // Gives the device the module of this address, and the modules that it needs, at the same
  // addresses and with their contents of this moment. Does nothing if the device has it already.
  // Ends a process that does not answer. Returns nullopt if that succeeded or the process has
  // ended, otherwise one line with the reason.
  std::optional<std::string> adopt_module(std::uintptr_t address);
  // The kernel's address in the device. Returns nullopt if the device is not known to have the
  // module: call load_module_of() first. Does not wait for a module to load.
  std::optional<std::uintptr_t> find_kernel(KernelFunction kernel);
  // Has the device load the kernel's module, if the host loaded it after the fork. Waits until its
  // constructors have run, as long as the device lives; other commands can run meanwhile. Returns 0
  // or an errno (ENOEXEC: the address lies in no loaded module, or the device cannot load it;
  // ESRCH; ETIMEDOUT). A module with managed variables must be adopted instead.
  [[nodiscard]] int load_module_of(KernelFunction kernel);

  // Whether the calling thread has the credentials with which the device was started. Kernels run
  // with the device's.
  bool has_credentials_of_caller() const;

  // Why the process ended. Requires: pidfd() is readable.
  DeviceFailure failure() const;

  struct State;

 private:
  explicit DeviceProcess(std::unique_ptr<State> state);
  // Returns `error`, a command's result; if it is ETIMEDOUT, ends the process and returns ESRCH.
  int end_if_silent(int error);

  std::unique_ptr<State> state_;
};

// Returns "symbol+offset (module+offset)" for a code address of this program, for log lines.
std::string describe_code_address(std::uintptr_t address);

}  // namespace wherry::impl
