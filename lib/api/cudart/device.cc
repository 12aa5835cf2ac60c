// The runtime API's functions of devices.
#include "api/cudart/entry.h"
#include "api/entry.h"
#include "objects/failures/bad_arguments.h"
#include "objects/thread_contexts.h"

using namespace wherry::impl;

cudaError_t cudaGetDeviceCount(int* count) {
  const CUresult started = start_library();
  if (started == CUDA_ERROR_NO_DEVICE && count != nullptr) *count = 0;
  return finish(started == CUDA_SUCCESS ? cuDeviceGetCount(count) : started);
}

cudaError_t cudaSetDevice(int device) {
  return with_library([&] {
    return enter([&](Driver& driver) {
      Device* found = driver.device(device);
      if (found == nullptr) return refuse_device(driver.runtime(), device);
      ThreadContexts::mine().set(driver.retain_primary_for_runtime(*found));
      RuntimeThread::mine().device = device;
      return CUDA_SUCCESS;
    });
  });
}

cudaError_t cudaGetDevice(int* device) {
  return with_library([&] {
    if (ThreadContexts::mine().current() != nullptr) return cuCtxGetDevice(device);
    return enter([&](Driver&) {
      if (device == nullptr) return refuse_null("device");
      *device = RuntimeThread::mine().device;
      return CUDA_SUCCESS;
    });
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attr, int device) {
  return with_library(
      [&] { return cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(attr), device); });
}

cudaError_t cudaDeviceSynchronize(void) {
  return with_context([] { return cuCtxSynchronize(); });
}
