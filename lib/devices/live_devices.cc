#include "devices/live_devices.h"

#include <utility>

namespace wherry::impl {

bool LiveDevices::put(int ordinal, std::shared_ptr<DeviceProcess> process) {
  const LockGuard guard(lock_);
  if (closed_) return false;
  processes_[static_cast<std::size_t>(ordinal)] = std::move(process);
  return true;
}

void LiveDevices::end_all() {
  decltype(processes_) running;
  {
    const LockGuard guard(lock_);
    closed_ = true;
    running = processes_;
  }
  for (const auto& process : running)
    if (process) process->kill();
  for (const auto& process : running)
    if (process) process->wait_for_end();
}

}  // namespace wherry::impl
