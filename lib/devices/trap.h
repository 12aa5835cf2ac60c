// How the accesses of all processors to absent pages become FaultEvents, and how page tables are
// changed. There is one implementation for userfaultfd and one for mprotect.
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
#include "trap/trap.h"
#include "trap/view_changer.h"

namespace wherry::impl {

class Trap {
 public:
  struct Parts {
    const ArenaLayout* layout = nullptr;  // outlives the trap
    std::vector<MemoryPoolFile*> pools;   // by processor; they outlive the trap
    bool huge_pages = false;              // see map_pool_view()
    TrapMode mode;
    // The most mappings that one process may have; 0: no limit.
    std::uint64_t mappings_budget = 0;
  };

  virtual ~Trap() = default;

  virtual Mapper& mapper(Processor p) = 0;
  virtual ViewChanger& changer(Processor p) = 0;
  // True: the processes map the arena accessible. False: only the pages that the mapper enters are
  // accessible.
  virtual bool opens_arena() const = 0;

  // From now on accesses to the layout's pages trap in that process. Throws std::system_error.
  virtual std::shared_ptr<const FaultSource> attach_host() = 0;
  virtual std::shared_ptr<const FaultSource> attach_device(
      int device, std::shared_ptr<DeviceProcess> process) = 0;
  // The layout has gained these pages, which the host sees in its own pool: accesses to them trap,
  // too. Throws std::system_error.
  virtual void attach_host_pages(const PlacedPages& placed) = 0;
  // To be called when the device's process has ended.
  virtual void detach_device(int device) = 0;
  // From now on the host's own threads may call `service`, which must outlive them, to have their
  // faults answered.
  virtual void serve_host(FaultService& service) = 0;
};

std::unique_ptr<Trap> make_trap(Trap::Parts parts);

// The view changer of a processor, for every kind of trap: a HostViewChanger or a
// DeviceViewChanger, not attached to its process yet.
std::unique_ptr<ViewChanger> make_changer(const Trap::Parts& parts, Processor p);

}  // namespace wherry::impl
