// The running device processes, so that they can be ended and reaped when the program ends: no
// orphan and no zombie is left to PID 1. Any thread may call.
#pragma once

#include <array>
#include <memory>

#include "base/lock.h"
#include "base/processor.h"
#include "devices/device_process.h"

namespace wherry::impl {

class LiveDevices {
 public:
  // The process replaces the device's previous one. Returns false if the program is ending; then no
  // device may start.
  [[nodiscard]] bool put(int ordinal, std::shared_ptr<DeviceProcess> process) EXCLUDES(lock_);
  // Kills all device processes, waits until they have ended (at most one second of running time
  // each), and reaps them. Takes no other lock, because any thread may have called exit().
  void end_all() EXCLUDES(lock_);

 private:
  Mutex lock_{LockOrder::live_devices};
  std::array<std::shared_ptr<DeviceProcess>, max_devices> processes_ GUARDED_BY(lock_);
  bool closed_ GUARDED_BY(lock_) = false;
};

}  // namespace wherry::impl
