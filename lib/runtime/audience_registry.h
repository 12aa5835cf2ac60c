// Which processors may access memory of one device: hands out audiences for memory pools, admits
// devices to audiences and excludes them. Which audience an allocation has says its Ownership; the
// fault handlers and the device processes read the sets themselves from Audiences.
//
// Any thread may call. `lock_` (LockOrder::audiences) guards only which numbers are in use;
// exclude() waits until the device has no mappings of the memory.
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
    // Devices that use the host's page table. What one of them or the host may access, all may.
    ProcessorMask coherent = 0;
  };

  explicit AudienceRegistry(const Parts& parts);

  // Begins an audience that contains only this device, for a memory pool. Returns nullopt if all
  // numbers are in use.
  std::optional<unsigned> begin(int device) EXCLUDES(lock_);
  // Requires: no live allocation has this audience.
  void end(unsigned audience) EXCLUDES(lock_);
  // Lets the device access the audience's memory, where that is. For each audience, one thread at a
  // time calls admit() or exclude().
  void admit(unsigned audience, int device) EXCLUDES(lock_);
  // Ends that: the device has no mappings of the memory when this returns. If it does not give them
  // up in time, the log says so.
  void exclude(unsigned audience, int device) EXCLUDES(parts_.devices.lock, lock_);

 private:
  // The processors that have one page table with p.
  ProcessorMask sharing(Processor p) const;

  const Parts parts_;
  Mutex lock_{LockOrder::audiences};
  std::bitset<Audiences::end> in_use_ GUARDED_BY(lock_);  // of those for memory pools
  // The coherent devices that each audience was told to admit. While there is one, all processors
  // that use the host's page table are admitted.
  std::array<ProcessorMask, Audiences::end> coherent_admitted_ GUARDED_BY(lock_) = {};
};

}  // namespace wherry::impl
