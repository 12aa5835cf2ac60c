// Functions of wherry.h, events.h and explain.h under their earlier names, which compiled programs
// call. wherryTouch is in touch.cc.
#include <wherry/events.h>
#include <wherry/explain.h>

#include "api/exports.h"

CUresult wherryLaunch(CUstream stream, wherryKernel kernel, const void* args, size_t args_size,
                      size_t items) {
  return wherryLaunchKernel(stream, kernel, args, args_size, items);
}
CUresult wherryPageInfo(const void* address, wherryPageInfo_t* info) {
  return wherryGetPageState(address, info);
}
CUresult wherryPin(CUdeviceptr devPtr, size_t count) {
  return wherryPinPages(devPtr, count);
}
CUresult wherryUnpin(CUdeviceptr devPtr, size_t count) {
  return wherryUnpinPages(devPtr, count);
}
CUresult wherryP2PGetPages(unsigned long long p2pToken, unsigned int vaSpaceToken,
                           CUdeviceptr address, size_t length, wherryPageExtent* extents,
                           size_t* count) {
  return wherryGetP2PPages(p2pToken, vaSpaceToken, address, length, extents, count);
}
CUresult wherryP2PPutPages(unsigned long long p2pToken, unsigned int vaSpaceToken,
                           CUdeviceptr address, size_t length) {
  return wherryPutP2PPages(p2pToken, vaSpaceToken, address, length);
}
CUresult wherryDeviceProcess(CUdevice device, pid_t* pid) {
  return wherryGetDeviceProcess(device, pid);
}
CUresult wherryEventsStart(uint64_t kinds, size_t capacity) {
  return wherryStartEvents(kinds, capacity);
}
CUresult wherryEventsStop() {
  return wherryStopEvents();
}
CUresult wherryEventsRead(wherryEvent* events, size_t count, size_t* read) {
  return wherryReadEvents(events, count, read);
}
CUresult wherryEventsDropped(wherryEventKind kind, uint64_t* count) {
  return wherryCountDroppedEvents(kind, count);
}
CUresult wherryExplain(CUdeviceptr address, wherryExplanation* explanation) {
  return wherryExplainPage(address, explanation);
}
CUresult wherryExplainText(CUdeviceptr address, char* text, size_t bytes, size_t* needed) {
  return wherryDescribePage(address, text, bytes, needed);
}
