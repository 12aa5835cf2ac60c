// What a device is called by those who mean this very one: other processes, CUDA_VISIBLE_DEVICES.
#pragma once

#include <wherry/cuda.h>

#include <string>

namespace wherry::impl {

// Of the device with this number (DeviceConfig): the same in every process until the machine is
// started again. Devices of one machine differ in the first digits already.
CUuuid device_uuid(int number);

// "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", as nvidia-smi has it.
std::string uuid_text(const CUuuid& uuid);

}  // namespace wherry::impl
