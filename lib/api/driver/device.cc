// The C functions that need no context: initialization, error texts, devices.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

#include "api/entry.h"
#include "machine/device_uuid.h"
#include "objects/device_attributes.h"
#include "objects/failures/bad_arguments.h"
#include "objects/failures/error_texts.h"
#include "objects/start.h"

using namespace wherry::impl;

namespace {

constexpr int api_version = 13000;

std::string name_of(const DeviceConfig& device) {
  return fmt::format("Wherry device {} ({} on node {})", device.number,
                     device.emulated ? "emulated" : "memory", device.node);
}

// Runs body(driver) if the device exists.
template <typename Body>
CUresult enter_device(CUdevice ordinal, const Body& body, const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    const Device* device = driver.device(ordinal);
    return device == nullptr ? refuse_device(driver.runtime(), ordinal) : body(driver);
  });
}

CUresult get_uuid(CUuuid* uuid, CUdevice dev, const char* call = __builtin_FUNCTION()) {
  return enter_device(
      dev,
      [&](Driver& driver) {
        if (uuid == nullptr) return refuse_null("uuid");
        const DeviceUuid bytes = device_uuid(driver.runtime().device_config(dev).number);
        static_assert(sizeof uuid->bytes == sizeof bytes);
        std::memcpy(uuid->bytes, bytes.data(), sizeof bytes);
        return CUDA_SUCCESS;
      },
      call);
}

}  // namespace

// Programs call these two to report a failure, so failures of these two are not recorded.
CUresult cuGetErrorName(CUresult error, const char** pStr) {
  if (pStr == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const ErrorText* text = find_error_text(error);
  *pStr = text != nullptr ? text->name : nullptr;
  return text != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char** pStr) {
  if (pStr == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const ErrorText* text = find_error_text(error);
  *pStr = text != nullptr ? text->description : nullptr;
  return text != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuInit(unsigned int Flags) {
  return with_message([&] {
    if (Flags != 0) return refuse_flags(Flags, "Flags");
    return start_driver();
  });
}

CUresult cuDriverGetVersion(int* driverVersion) {
  return with_message([&] {
    if (driverVersion == nullptr) return refuse_null("driverVersion");
    *driverVersion = api_version;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return enter_device(ordinal, [&](Driver&) {
    if (device == nullptr) return refuse_null("device");
    *device = ordinal;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetCount(int* count) {
  return enter([&](Driver& driver) {
    if (count == nullptr) return refuse_null("count");
    *count = driver.device_count();
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetName(char* name, int len, CUdevice dev) {
  return enter_device(dev, [&](Driver& driver) {
    if (name == nullptr) return refuse_null("name");
    if (len <= 0)
      return fail(CUDA_ERROR_INVALID_VALUE, "len is {}; pass the size of the array name", len);
    const std::string full = name_of(driver.runtime().device_config(dev));
    const std::size_t kept = std::min(full.size(), static_cast<std::size_t>(len) - 1);
    std::memcpy(name, full.data(), kept);
    name[kept] = '\0';
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice dev) {
  return enter_device(dev, [&](Driver& driver) {
    if (bytes == nullptr) return refuse_null("bytes");
    *bytes = driver.runtime().device_config(dev).capacity;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceTotalMem(unsigned int* bytes, CUdevice dev) {
  std::size_t full = 0;
  const CUresult result = cuDeviceTotalMem_v2(bytes == nullptr ? nullptr : &full, dev);
  if (result == CUDA_SUCCESS) {
    *bytes =
        static_cast<unsigned>(std::min<std::size_t>(full, std::numeric_limits<unsigned>::max()));
  }
  return result;
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice dev) {
  return get_uuid(uuid, dev);
}
CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice dev) {
  return get_uuid(uuid, dev);
}

CUresult cuDeviceGetAttribute(int* pi, CUdevice_attribute attrib, CUdevice dev) {
  return enter_device(dev, [&](Driver& driver) {
    if (pi == nullptr) return refuse_null("pi");
    const auto value = device_attribute(attrib, driver.runtime().topology(), dev);
    if (!value) return refuse_value("attrib", static_cast<int>(attrib), "CUdevice_attribute");
    *pi = *value;
    return CUDA_SUCCESS;
  });
}
