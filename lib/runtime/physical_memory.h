// Memory without an address, of a device or the host: a file of its own, all of whose pages exist,
// with room for them in its processor's pool. The room is given back when nobody in this process
// uses the file any more; who else has the file has it for as long as he likes. A value; any
// thread.
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

// What is asked for when it is made; all but the second one other processes can tell of the file.
struct PhysicalTraits {
  Location location;                  // a device, the host, or one of its nodes
  bool is_exportable = false;         // by this process: what it was given by another one is not
  bool is_for_third_parties = false;  // devices that read and write it by themselves
};

struct PhysicalMemory {
  PhysicalTraits traits;
  std::size_t bytes = 0;
  std::shared_ptr<const Fd> file;
  FileIdentity identity;
  bool is_own = false;  // this process has made it, and holds the room
};

// Zeros. Nothing: there is no such room. Throws std::system_error. Requires: whole blocks, and that
// the location exists.
std::optional<PhysicalMemory> create_physical_memory(Runtime& runtime, const PhysicalTraits& traits,
                                                     std::size_t bytes);
// The memory of a file that create_physical_memory() made, here or in another process, which has
// the room for it. Nothing: it is no such file. Its node may not exist here. What this process has
// made, and still uses, keeps its room until this, too, is no longer used. Throws
// std::system_error.
std::optional<PhysicalMemory> import_physical_memory(Driver& driver, int fd);

}  // namespace wherry::impl
