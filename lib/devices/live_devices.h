// The device processes that run, so that the program's end can end and reap them: no orphan and no
// zombie is left for PID 1. Any thread.
#pragma once

#include <array>
#include <memory>

#include "base/lock.h"
#include "base/processor.h"
#include "devices/device_process.h"

namespace wherry::impl {

class LiveDevices {
 public:
  // The process takes the place of the device's last one. False: the program ends, and no device
  // may start.
  [[nodiscard]] bool put(int ordinal, std::shared_ptr<DeviceProcess> process) EXCLUDES(lock_);
  // Kills all of them, waits until they have ended (at most a second of running time each) and
  // reaps them. Takes no other lock: any thread may have called exit().
  void end_all() EXCLUDES(lock_);

 private:
  Mutex lock_{LockOrder::live_devices};
  std::array<std::shared_ptr<DeviceProcess>, max_devices> processes_ GUARDED_BY(lock_);
  bool closed_ GUARDED_BY(lock_) = false;
};

}  // namespace wherry::impl
