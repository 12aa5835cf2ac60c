// The UUIDs of devices: names that are the same in all processes, for example in
// CUDA_VISIBLE_DEVICES.
#pragma once

#include <wherry/cuda.h>

#include <string>

namespace wherry::impl {

// The UUID of the device with this number (DeviceConfig). It stays the same in every process until
// the machine is restarted. The UUIDs of one machine's devices already differ in the first digits.
CUuuid device_uuid(int number);

// "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", as nvidia-smi has it.
std::string uuid_text(const CUuuid& uuid);

}  // namespace wherry::impl
