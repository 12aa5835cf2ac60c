// Decides which processors may access device memory: hands out audiences (sets of processors) for
// memory pools, and admits devices to audiences or excludes them. An allocation's Ownership names
// its audience. Fault handlers and device processes read the sets from Audiences.
//
// Any thread may call. `lock_` (LockOrder::audiences) guards only this object's tables; exclude()
// waits until the device has no mappings of the memory.
#pragma once

#include <array>
#include <bitset>
#include <optional>

#include "base/lock.h"
#include "migration/advice_effects.h"
#include "pages/address_space.h"
#include "pages/audiences.h"
#include "runtime/device_supervisor.h"

namespace wherry::impl {

class AudienceRegistry {
 public:
  // All outlive this.
  struct Parts {
    Audiences& audiences;
    const AddressSpace& address_space;
    AdviceEffects& effects;
    const DeviceSupervisor& devices;
    // Devices that use the host's page table. All may access what the host or one of them may.
    ProcessorMask coherent = 0;
  };

  explicit AudienceRegistry(const Parts& parts);

  // Begins an audience that contains only this device, for a memory pool. Returns nullopt if all
  // audiences are in use.
  std::optional<unsigned> begin(int device) EXCLUDES(lock_);
  // Requires: no live allocation has this audience.
  void end(unsigned audience) EXCLUDES(lock_);
  // Lets the device access the audience's memory in place. For each audience, one thread at a time
  // calls admit() or exclude().
  void admit(unsigned audience, int device) EXCLUDES(lock_);
  // Ends the device's access: it has no mappings of the memory when this returns. If it does not
  // give them up in time, the log says so.
  void exclude(unsigned audience, int device) EXCLUDES(parts_.devices.lock, lock_);

 private:
  // The processors that use p's page table, including p.
  ProcessorMask sharing(Processor p) const;

  const Parts parts_;
  Mutex lock_{LockOrder::audiences};
  std::bitset<Audiences::end> in_use_ GUARDED_BY(lock_);  // audiences of memory pools
  // By audience: the coherent devices that were admitted. While there is one, the audience admits
  // all processors that use the host's page table.
  std::array<ProcessorMask, Audiences::end> coherent_admitted_ GUARDED_BY(lock_) = {};
};

}  // namespace wherry::impl
