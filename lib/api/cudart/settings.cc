// The runtime API's functions that change and query the settings of a device.
#include "api/cudart/entry.h"
#include "api/entry.h"
#include "objects/failures/bad_arguments.h"

using namespace wherry::impl;

namespace {

// The device whose primary context the calling thread uses.
CUresult find_device(int& device) {
  const cudaError_t found = cudaGetDevice(&device);
  if (found == cudaSuccess) return CUDA_SUCCESS;
  return fail_instead(static_cast<CUresult>(found), CUDA_ERROR_INVALID_CONTEXT);
}

cudaError_t tell_version(int* version, int value, const char* call = __builtin_FUNCTION()) {
  if (version == nullptr) return finish(refuse_null("runtimeVersion"), call);
  *version = value;
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaDriverGetVersion(int* driverVersion) {
  return finish(cuDriverGetVersion(driverVersion));
}

cudaError_t cudaRuntimeGetVersion(int* runtimeVersion) {
  return tell_version(runtimeVersion, CUDART_VERSION);
}

cudaError_t cudaDeviceGetPCIBusId(char* pciBusId, int len, int device) {
  return with_library([&] { return cuDeviceGetPCIBusId(pciBusId, len, device); });
}

cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* pciBusId) {
  return with_library([&] { return cuDeviceGetByPCIBusId(device, pciBusId); });
}

cudaError_t cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags) {
  return with_library([&] {
    if ((flags & ~static_cast<unsigned>(cudaInitDeviceFlagsAreValid)) != 0)
      return refuse_bits(flags, cudaInitDeviceFlagsAreValid);
    if ((flags & cudaInitDeviceFlagsAreValid) != 0) {
      const CUresult set = cuDevicePrimaryCtxSetFlags_v2(device, deviceFlags);
      if (set != CUDA_SUCCESS) return set;
    }
    return enter([&](Driver& driver) {
      Device* found = driver.device(device);
      if (found == nullptr) return refuse_device(driver.runtime(), device);
      driver.retain_primary_for_runtime(*found);
      return CUDA_SUCCESS;
    });
  });
}

cudaError_t cudaSetDeviceFlags(unsigned int flags) {
  return with_library([&] {
    int device = 0;
    const CUresult found = find_device(device);
    return found == CUDA_SUCCESS ? cuDevicePrimaryCtxSetFlags_v2(device, flags) : found;
  });
}

cudaError_t cudaGetDeviceFlags(unsigned int* flags) {
  return with_library([&] {
    int device = 0;
    int active = 0;
    const CUresult found = find_device(device);
    return found == CUDA_SUCCESS ? cuDevicePrimaryCtxGetState(device, flags, &active) : found;
  });
}

cudaError_t cudaDeviceReset(void) {
  return with_library([] {
    int device = 0;
    const CUresult found = find_device(device);
    return found == CUDA_SUCCESS ? cuDevicePrimaryCtxReset_v2(device) : found;
  });
}

cudaError_t cudaDeviceGetLimit(size_t* pValue, cudaLimit limit) {
  return with_context([&] { return cuCtxGetLimit(pValue, static_cast<CUlimit>(limit)); });
}
cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
  return with_context([&] { return cuCtxSetLimit(static_cast<CUlimit>(limit), value); });
}

cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* pCacheConfig) {
  return with_context(
      [&] { return cuCtxGetCacheConfig(reinterpret_cast<CUfunc_cache*>(pCacheConfig)); });
}
cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache cacheConfig) {
  return with_context([&] { return cuCtxSetCacheConfig(static_cast<CUfunc_cache>(cacheConfig)); });
}

cudaError_t cudaProfilerStart(void) {
  return with_context([] { return cuProfilerStart(); });
}
cudaError_t cudaProfilerStop(void) {
  return with_context([] { return cuProfilerStop(); });
}
