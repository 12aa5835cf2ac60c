// Which module a kernel's code is in, and how to have the same module in a device. Kernels are code
// addresses; a module loaded after the fork is named by its file and loaded in the device too.
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

// How often this process has loaded and unloaded modules.
struct ModuleCounts {
  std::uint64_t loads = 0;
  std::uint64_t unloads = 0;
  bool operator==(const ModuleCounts&) const = default;
  static ModuleCounts now();
};

struct ModuleLocation {
  std::uintptr_t base = 0;  // what the loader added to the file's addresses
  std::string path;         // absolute
  FileIdentity file;
};

// The host's modules at one moment (just before a fork). Does not change; any thread.
class ModuleSnapshot {
 public:
  ModuleSnapshot();

  // Whether the address lies in a module that was there then, and nothing can have taken its place.
  bool still_has(std::uintptr_t address) const;

 private:
  std::vector<AddressRange> modules_;
  AddressRange program_;  // never unloaded
  std::uint64_t unloads_ = 0;
};

// Where the module of an address is now in this process, and its file; nothing when the address
// lies in no module, or the module's file is gone.
std::optional<ModuleLocation> locate_module(std::uintptr_t address);

// In the device: loads modules and keeps them. One thread at a time.
class ModuleLoader {
 public:
  // Its base here; nothing when it cannot be loaded, or another file stands at its path.
  std::optional<std::uintptr_t> load(const std::string& path, FileIdentity file);

 private:
  std::unordered_map<std::string, void*> handles_;
};

// In the device: the same on a thread of its own, one module after the other. Constructors may take
// any time, and may touch managed memory, for which the agent has to go on. Lives as long as the
// process.
class BackgroundLoader {
 public:
  // Returns 0 and its base; EINPROGRESS: it is being loaded, ask again; ENOEXEC: the dynamic loader
  // refuses it, or another file stands at its path; EAGAIN: no thread can be started.
  int load(const std::string& path, FileIdentity file, std::uint64_t& base) EXCLUDES(lock_);

 private:
  struct Job {
    std::string path;
    FileIdentity file;
    bool done = false;
    std::optional<std::uintptr_t> base = {};
  };
  void work() EXCLUDES(lock_);

  ModuleLoader loader_;  // the thread's
  Mutex lock_{LockOrder::loader};
  Condition added_;
  std::deque<Job> jobs_ GUARDED_BY(lock_);  // in the order in which they are done
  bool started_ GUARDED_BY(lock_) = false;
};

}  // namespace wherry::impl
