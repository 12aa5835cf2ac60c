// Runs in the device: its life from the fork on, and the commands that it obeys.
//
// The leader of the process is the agent. It prepares the process, reports that it is ready (with
// what the host hears of its faults by), then answers one command at a time until the host goes,
// however it goes.
#pragma once

#include <climits>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "devices/device_process.h"
#include "devices/launch_board.h"
#include "devices/module_image.h"
#include "devices/worker.h"
#include "os/files/fd.h"
#include "os/memory/address_map.h"
#include "os/memory/mapping.h"
#include "os/process/snapshot_guard.h"
#include "os/process/start_block.h"
#include "trap/view_changer.h"

namespace wherry::impl {

enum class CommandKind : std::uint32_t {
  run,          // starts the workers
  open_arena,   // `bytes` from the arena's base become accessible
  forbid,       // [address, address + bytes) becomes inaccessible
  change_view,  // [address, address + bytes) shows the pool of `owner` from `offset` on, from now
                // on
  place_pages,  // the arena's pages from `offset` on are there, and show the own pool
  forget_entries,  // the first `page_count` of `pages` have no entry any more
  map_file,        // [address, address + bytes) shows the file that comes along, from `offset` on
  unmap_file,      // [address, address + bytes), of the annex, shows nothing
  load_module,     // loads `path`; the reply's value is where. EINPROGRESS: it is being loaded, ask
                   // again
  adopt_image,     // the image whose contents come with the command is where it says
  quit,
};

// Both messages are sent whole. A reply carries its command's number.
struct Command {
  CommandKind kind = CommandKind::quit;
  std::uint32_t number = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;
  std::uint64_t owner = 0;
  Access access = Access::none;
  std::uint64_t page_count = 0;
  std::uint64_t pages[ViewChanger::pages_max] = {};
  std::uint64_t file_device = 0;  // of the module that the host has, see ModuleLocation
  std::uint64_t file_inode = 0;
  char path[PATH_MAX] = {};
  std::uint64_t unwind_info = 0;  // of an image, see ModuleImage
  std::uint64_t part_count = 0;
  ModuleImage::Part parts[ModuleImage::parts_max] = {};
};
struct Reply {
  std::uint32_t number = 0;
  int error = 0;
  std::uint64_t value = 0;
};

// The first message of a device, number 0: what it could not do, or that it is ready.
struct StartReport {
  int error = 0;
  char what[60] = {};
};

// Everything that the agent needs, made by the host before the fork. In the device it is part of
// the snapshot.
struct AgentStart {
  std::string name;
  const DeviceProcessOptions* options = nullptr;
  LaunchBoard* board = nullptr;
  FaultBoard* faults = nullptr;
  Fd socket;  // the device's end
  pid_t host = -1;
  Fd host_pidfd;  // readable when the host has ended
  const Fd* completion = nullptr;
  std::vector<int> descriptors;  // all that the device keeps
  // A copy of the environment: the application may have set variables to text on a stack.
  std::vector<std::string> variables;
  std::vector<char*> environment;  // to those; ends with a null pointer
  // Empty where the address space cannot be masked (sanitizers).
  AddressRange window;
  std::vector<AddressRange> kept;
  StartBlock start_block;
  struct Free {
    void operator()(void* block) const { std::free(block); }
  };
  // Of the C library's heap, which the device needs, too.
  std::unique_ptr<void, Free> heap_block{std::malloc(64)};
  bool hide_memory = true;
  // WHERRY_CHECK
  bool guards_snapshot = false;
  SnapshotGuardPlan guard;
  std::vector<AddressRange> kept_variables;
};

// The entry of the new process; `start` is an AgentStart. Does not return.
void run_agent(void* start);

}  // namespace wherry::impl
