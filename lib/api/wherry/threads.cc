// The C functions of wherry.h for threads of the program that count as a coherent device.
#include <cerrno>

#include "api/entry.h"
#include "faults/attached_threads.h"
#include "runtime/runtime.h"

using namespace wherry::impl;

namespace {

// From an errno of AttachedThreads.
CUresult attach_result(int error) {
  switch (error) {
    case 0:
      return CUDA_SUCCESS;
    case EAGAIN:
      return CUDA_ERROR_OUT_OF_MEMORY;
    case ENODEV:
    case ENOTSUP:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_NOT_PERMITTED;
  }
}

}  // namespace

CUresult wherryThreadAttach(CUdevice device) {
  return enter([&](Driver& driver) {
    if (driver.device(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    Runtime& runtime = driver.runtime();
    if (runtime.device_config(device).kind != DeviceKind::coherent) return CUDA_ERROR_NOT_SUPPORTED;
    return attach_result(runtime.attached_threads().attach(Processor::device(device)));
  });
}

CUresult wherryThreadAttachByCpu(void) {
  return enter([](Driver& driver) {
    return attach_result(driver.runtime().attached_threads().attach_by_cpu());
  });
}

CUresult wherryThreadDetach(void) {
  return enter([](Driver& driver) {
    return driver.runtime().attached_threads().detach() == 0 ? CUDA_SUCCESS
                                                             : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult wherryThreadDevice(CUdevice* device, int* byCpu) {
  return enter([&](Driver& driver) {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const AttachedThreads::Attachment mine = driver.runtime().attached_threads().mine();
    *device = mine.counts_as.ordinal();
    if (byCpu != nullptr) *byCpu = mine.by_cpu ? 1 : 0;
    return CUDA_SUCCESS;
  });
}
