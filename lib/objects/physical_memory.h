// Memory without an address, of a device or the host (cuMemCreate): a file of its own, all of whose
// pages exist. They count as pages of its processor's pool (PoolBudget) until nothing in this
// process uses the file; other processes may keep it longer. A value; any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "os/files/fd.h"
#include "os/files/file_identity.h"
#include "pages/advice.h"
#include "runtime/runtime.h"

namespace wherry::impl {

class Driver;

// What the program asks for. Other processes learn all but `is_exportable` from the file's name.
struct PhysicalTraits {
  Location location;                  // a device, the host, or one of its nodes
  bool is_exportable = false;         // by this process; memory imported from another one is not
  bool is_for_third_parties = false;  // devices that read and write it by themselves
};

struct PhysicalMemory {
  PhysicalTraits traits;
  std::size_t bytes = 0;
  std::shared_ptr<const Fd> file;
  FileIdentity identity;
  bool is_own = false;  // this process has made it, and its pages are reserved here
};

// Creates zero-filled memory. Returns nullopt if it does not fit. Throws std::system_error.
// Requires: `bytes` is whole blocks (2 MiB); the location exists.
std::optional<PhysicalMemory> create_physical_memory(Runtime& runtime, const PhysicalTraits& traits,
                                                     std::size_t bytes);
// Returns the memory of a file that create_physical_memory() made, in this or another process, or
// nullopt if it is no such file. Its node may not exist here. The pages stay reserved in the
// process that made the file; if that is this process, for as long as this value is used, too.
// Throws std::system_error.
std::optional<PhysicalMemory> import_physical_memory(Driver& driver, int fd);

}  // namespace wherry::impl
