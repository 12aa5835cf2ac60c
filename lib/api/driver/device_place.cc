// The C functions for the kind and the bus location of a device.
#include <algorithm>
#include <cctype>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "api/entry.h"
#include "objects/device_attributes.h"
#include "objects/failures/bad_arguments.h"

using namespace wherry::impl;

namespace {

int attribute(Driver& driver, CUdevice_attribute which, CUdevice dev) {
  return *device_attribute(which, driver.runtime().topology(), dev);
}

// Returns "domain:bus:device.function".
std::string bus_id(Driver& driver, CUdevice dev) {
  return fmt::format("{:04x}:{:02x}:{:02x}.0",
                     attribute(driver, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, dev),
                     attribute(driver, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, dev),
                     attribute(driver, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, dev));
}

// Completes a bus id: its domain or its function may be missing, and its letters upper case.
std::string whole_bus_id(std::string_view text) {
  std::string whole;
  for (const char letter : text) {
    whole += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  if (whole.find(':') == whole.rfind(':')) whole = "0000:" + whole;
  if (whole.find('.') == std::string::npos) whole += ".0";
  return whole;
}

CUresult refuse_length(int length, const std::string& id) {
  return fail(CUDA_ERROR_INVALID_VALUE, "len is {}, and the bus id has {} characters; pass {}",
              length, id.size(), id.size() + 1);
}

}  // namespace

CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice dev) {
  return enter([&](Driver& driver) {
    if (major == nullptr) return refuse_null("major");
    if (minor == nullptr) return refuse_null("minor");
    if (driver.device(dev) == nullptr) return refuse_device(driver.runtime(), dev);
    *major = attribute(driver, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, dev);
    *minor = attribute(driver, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, dev);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetProperties(CUdevprop* prop, CUdevice dev) {
  return enter([&](Driver& driver) {
    if (prop == nullptr) return refuse_null("prop");
    if (driver.device(dev) == nullptr) return refuse_device(driver.runtime(), dev);
    const auto get = [&](CUdevice_attribute which) { return attribute(driver, which, dev); };
    *prop = {get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
             {get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X), get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y),
              get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)},
             {get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X), get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y),
              get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)},
             get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK),
             get(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY),
             get(CU_DEVICE_ATTRIBUTE_WARP_SIZE),
             get(CU_DEVICE_ATTRIBUTE_MAX_PITCH),
             get(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK),
             get(CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
             get(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT)};
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetExecAffinitySupport(int* pi, CUexecAffinityType type, CUdevice dev) {
  return enter([&](Driver& driver) {
    if (pi == nullptr) return refuse_null("pi");
    if (type != CU_EXEC_AFFINITY_TYPE_SM_COUNT)
      return refuse_value("type", static_cast<int>(type), "CUexecAffinityType");
    if (driver.device(dev) == nullptr) return refuse_device(driver.runtime(), dev);
    *pi = 0;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetPCIBusId(char* pciBusId, int len, CUdevice dev) {
  return enter([&](Driver& driver) {
    if (pciBusId == nullptr) return refuse_null("pciBusId");
    if (driver.device(dev) == nullptr) return refuse_device(driver.runtime(), dev);
    const std::string id = bus_id(driver, dev);
    if (len <= 0) return refuse_length(len, id);
    // A buffer that is too short gets the id's beginning, as from NVIDIA's driver.
    const std::size_t kept = std::min(id.size(), static_cast<std::size_t>(len) - 1);
    std::memcpy(pciBusId, id.data(), kept);
    pciBusId[kept] = '\0';
    return kept == id.size() ? CUDA_SUCCESS : refuse_length(len, id);
  });
}

CUresult cuDeviceGetByPCIBusId(CUdevice* dev, const char* pciBusId) {
  return enter([&](Driver& driver) {
    if (dev == nullptr) return refuse_null("dev");
    if (pciBusId == nullptr) return refuse_null("pciBusId");
    const std::string asked = whole_bus_id(pciBusId);
    for (CUdevice each = 0; each < driver.device_count(); ++each) {
      if (bus_id(driver, each) != asked) continue;
      *dev = each;
      return CUDA_SUCCESS;
    }
    return fail(CUDA_ERROR_INVALID_DEVICE,
                "no device has the bus id {}; pass one of cuDeviceGetPCIBusId", pciBusId);
  });
}
