// Finds the module that contains a kernel's code, and loads that module in a device. A kernel is a
// code address. The device loads modules that the host loaded after the fork, from the same file.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/lock.h"
#include "os/files/file_identity.h"
#include "os/memory/address_map.h"
#include "os/process/condition.h"

namespace wherry::impl {

// How many modules this process has loaded and unloaded.
struct ModuleCounts {
  std::uint64_t loads = 0;
  std::uint64_t unloads = 0;
  bool operator==(const ModuleCounts&) const = default;
  static ModuleCounts now();
};

struct ModuleLocation {
  std::uintptr_t base = 0;  // difference between addresses in memory and in the file
  std::string path;         // absolute
  FileIdentity file;
};

// The host's modules at one moment (just before a fork). Immutable; any thread may call.
class ModuleSnapshot {
 public:
  ModuleSnapshot();

  // Whether the address lay in a module then, and that module is certain to be there still.
  bool still_has(std::uintptr_t address) const;

 private:
  std::vector<AddressRange> modules_;
  AddressRange program_;  // extent of the program itself, which is never unloaded
  std::uint64_t unloads_ = 0;
};

// The file of the module that contains an address, and where the module is loaded. Returns nullopt
// if no module contains the address, or if the module's file is gone.
std::optional<ModuleLocation> locate_module(std::uintptr_t address);

// In the device: loads modules and keeps them loaded. One thread at a time may call.
class ModuleLoader {
 public:
  // Returns the module's base in this process. Returns nullopt if it cannot be loaded, or if its
  // path names another file now.
  std::optional<std::uintptr_t> load(const std::string& path, FileIdentity file);

 private:
  std::unordered_map<std::string, void*> handles_;
};

// In the device: loads modules on a thread of its own, one after the other. Constructors may take
// any time, and may access managed memory, so the agent must be able to continue meanwhile. The
// object lives as long as the process.
class BackgroundLoader {
 public:
  // Returns 0 and sets `base`, or an errno. EINPROGRESS: the module is not loaded yet, ask again.
  // ENOEXEC: the dynamic loader refuses it, or the path names another file now. EAGAIN: no thread
  // can be started.
  int load(const std::string& path, FileIdentity file, std::uint64_t& base) EXCLUDES(lock_);

 private:
  struct LoadRequest {
    std::string path;
    FileIdentity file;
    bool done = false;
    std::optional<std::uintptr_t> base = {};
  };
  void work() EXCLUDES(lock_);

  ModuleLoader loader_;  // used by the thread only
  Mutex lock_{LockOrder::loader};
  Condition added_;
  std::deque<LoadRequest> requests_ GUARDED_BY(lock_);  // loaded in this order
  bool started_ GUARDED_BY(lock_) = false;
};

}  // namespace wherry::impl
