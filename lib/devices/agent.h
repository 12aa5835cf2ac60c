// Code that runs in the device process: its life after the fork, and its commands from the host.
//
// The main thread of the process is the agent. It prepares the process and reports that it is
// ready; this report carries the device's userfaultfd, if the trap uses one. Then it executes one
// command at a time (devices/agent_commands.h) until the host process ends, whatever the reason.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "devices/device_process.h"
#include "devices/launch_board.h"
#include "devices/worker.h"
#include "os/files/fd.h"
#include "os/memory/address_map.h"
#include "os/process/snapshot_guard.h"
#include "os/process/start_block.h"

namespace wherry::impl {

// The first message of a device (number 0): says that it is ready, or what it could not do.
struct StartReport {
  int error = 0;
  char what[60] = {};
};

// Everything that the agent needs. The host prepares it before the fork, which copies it.
struct AgentStart {
  std::string name;
  const DeviceProcessOptions* options = nullptr;
  LaunchBoard* board = nullptr;
  FaultBoard* faults = nullptr;
  Fd socket;  // the device's end
  pid_t host = -1;
  Fd host_pidfd;  // readable when the host has ended
  const Fd* completion = nullptr;
  int fault_notifier = -1;       // DeviceTrap::Parts::notifier
  std::vector<int> descriptors;  // those that the device keeps open
  // A copy of the environment: the application may have set variables to text on a stack, which the
  // device cannot see.
  std::vector<std::string> variables;
  std::vector<char*> environment;  // pointers to `variables`; ends with a null pointer
  // Addresses for the device's own mappings (heap, stacks, modules). Empty if the program's memory
  // cannot be hidden (as with sanitizers).
  AddressRange window;
  std::vector<AddressRange> kept;
  StartBlock start_block;
  struct Free {
    void operator()(void* block) const { std::free(block); }
  };
  // A block of the C library's heap, from which the device learns where that heap lies.
  std::unique_ptr<void, Free> heap_block{std::malloc(64)};
  bool hide_memory = true;
  AddressRange c_library_code;
  // Set if WHERRY_CHECK asks for a read-only snapshot of the program, and the device can have it.
  bool guards_snapshot = false;
  SnapshotGuardPlan guard;
  std::vector<AddressRange> kept_variables;
};

// The entry point of the new process; `start` is an AgentStart. Does not return.
void run_agent(void* start);

}  // namespace wherry::impl
