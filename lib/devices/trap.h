// How the faults of all processors are trapped, and their page tables changed: the seam behind
// which it is decided that a process's touch of what is not there becomes a FaultEvent. One
// implementation for userfaultfd, one for mprotect.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/processor.h"
#include "devices/device_process.h"
#include "faults/fault_service.h"
#include "memory/pool.h"
#include "pages/arena_layout.h"
#include "trap/fault_source.h"
#include "trap/mapper.h"
#include "trap/view_changer.h"

namespace wherry::impl {

class Trap {
 public:
  struct Parts {
    const ArenaLayout* layout = nullptr;        // outlives the trap
    std::vector<MemoryPoolFile*> pools;         // by processor; they outlive the trap
    bool huge_pages = false;                    // as map_pool_view has it
    UffdAccess uffd_access = UffdAccess::full;  // none: mprotect traps
    std::uint64_t mappings_budget =
        0;  // how many mappings one process shall have at most; 0: as many as like
  };

  virtual ~Trap() = default;

  virtual Mapper& mapper(Processor p) = 0;
  virtual ViewChanger& changer(Processor p) = 0;
  // Whether the arena is accessible to whom the trap watches, or only what the mapper enters.
  virtual bool opens_arena() const = 0;

  // Each makes the layout's pages trap in one process from now on. Throws std::system_error.
  virtual std::shared_ptr<const FaultSource> attach_host() = 0;
  virtual std::shared_ptr<const FaultSource> attach_device(
      int device, std::shared_ptr<DeviceProcess> process) = 0;
  // Pages that the layout has gained, which the host sees in its own pool: they trap, too. Throws
  // std::system_error.
  virtual void attach_host_pages(const PlacedPages& placed) = 0;
  // The device's process has ended.
  virtual void detach_device(int device) = 0;
  // From now on the host's own threads may have `service`, which outlives them, answer what they
  // touch.
  virtual void serve_host(FaultService& service) = 0;
};

std::unique_ptr<Trap> make_trap(Trap::Parts parts);

// What every trap has for a processor: a HostViewChanger or a DeviceViewChanger, to be attached to
// its process.
std::unique_ptr<ViewChanger> make_changer(const Trap::Parts& parts, Processor p);

}  // namespace wherry::impl
