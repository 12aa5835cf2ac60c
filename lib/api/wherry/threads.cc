// The C functions of wherry.h for threads of the program that count as a coherent device.
#include <cerrno>

#include "api/entry.h"
#include "objects/failures/bad_arguments.h"
#include "runtime/runtime.h"
#include "trap/attached_threads.h"

using namespace wherry::impl;

namespace {

// Translates an errno of AttachedThreads.
CUresult attach_result(int error) {
  switch (error) {
    case 0:
      return CUDA_SUCCESS;
    case EAGAIN:
      return fail(CUDA_ERROR_OUT_OF_MEMORY,
                  "too many threads are attached; detach some with wherryThreadDetach");
    case ENODEV:
      return fail(CUDA_ERROR_NOT_SUPPORTED,
                  "no coherent device is on a node that has CPUs; see node= in WHERRY_DEVICES");
    case ENOTSUP:
      return fail(CUDA_ERROR_NOT_SUPPORTED,
                  "the C library does not say on which CPU a thread runs; use glibc 2.35 or later, "
                  "without glibc.pthread.rseq=0, or wherryThreadAttach");
    default:
      return fail(CUDA_ERROR_NOT_PERMITTED, "the thread is ending; attach it earlier");
  }
}

}  // namespace

CUresult wherryThreadAttach(CUdevice device) {
  return enter([&](Driver& driver) {
    Runtime& runtime = driver.runtime();
    if (driver.device(device) == nullptr) return refuse_device(runtime, device);
    if (runtime.device_config(device).kind != DeviceKind::coherent)
      return fail(CUDA_ERROR_NOT_SUPPORTED,
                  "device {} is isolated; set kind=coherent for it in WHERRY_DEVICES", device);
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
    return driver.runtime().attached_threads().detach() == 0
               ? CUDA_SUCCESS
               : fail(CUDA_ERROR_INVALID_VALUE,
                      "the calling thread is not attached; call wherryThreadAttach first");
  });
}

CUresult wherryThreadDevice(CUdevice* device, int* byCpu) {
  return enter([&](Driver& driver) {
    if (device == nullptr) return refuse_null("device");
    const AttachedThreads::Attachment mine = driver.runtime().attached_threads().mine();
    *device = mine.counts_as.ordinal();
    if (byCpu != nullptr) *byCpu = mine.by_cpu ? 1 : 0;
    return CUDA_SUCCESS;
  });
}
