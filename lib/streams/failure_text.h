// Describes in one line, for the log, why a device process ended.
#pragma once

#include <string>

#include "devices/device_process.h"

namespace wherry::impl {

// For example "device 0 (process 4711): kernel scale+0x1f (a.out) touched 0x7f..., which the device
// cannot see". `kernel`: the host's address of the kernel that ran; 0 if it is unknown.
std::string describe_failure(int ordinal, pid_t pid, const DeviceFailure& failure,
                             std::uintptr_t kernel);

}  // namespace wherry::impl
