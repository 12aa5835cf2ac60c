// The UUIDs of devices: names that are the same in all processes, for example in
// CUDA_VISIBLE_DEVICES.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace wherry::impl {

using DeviceUuid = std::array<std::uint8_t, 16>;

// The UUID of the device with this number (DeviceConfig). It stays the same in every process until
// the machine is restarted. The UUIDs of one machine's devices already differ in the first digits.
DeviceUuid device_uuid(int number);

// "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", as nvidia-smi has it.
std::string uuid_text(const DeviceUuid& uuid);

}  // namespace wherry::impl
