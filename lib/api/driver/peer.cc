// The C functions of peer access between devices.
#include "api/entry.h"
#include "objects/failures/bad_arguments.h"

using namespace wherry::impl;

namespace {

// True for any two different devices: each can map every pool.
bool can_access(CUdevice device, CUdevice peer) {
  return device != peer;
}

// All devices are in one machine, so its memory is the link between them.
CUresult link_attribute(CUdevice_P2PAttribute attribute, int& value) {
  switch (attribute) {
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
      value = 1;
      return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED:
      value = 0;
      return CUDA_SUCCESS;
  }
  return refuse_value("attrib", static_cast<int>(attribute), "CUdevice_P2PAttribute");
}

}  // namespace

CUresult cuDeviceCanAccessPeer(int* canAccessPeer, CUdevice dev, CUdevice peerDev) {
  return enter([&](Driver& driver) {
    if (canAccessPeer == nullptr) return refuse_null("canAccessPeer");
    const CUresult checked = check_devices(driver, dev, peerDev);
    if (checked != CUDA_SUCCESS) return checked;
    *canAccessPeer = can_access(dev, peerDev) ? 1 : 0;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attrib, CUdevice srcDevice,
                                 CUdevice dstDevice) {
  return enter([&](Driver& driver) {
    if (value == nullptr) return refuse_null("value");
    int answer = 0;
    CUresult checked = link_attribute(attrib, answer);
    if (checked == CUDA_SUCCESS) checked = check_devices(driver, srcDevice, dstDevice);
    if (checked != CUDA_SUCCESS) return checked;
    if (srcDevice == dstDevice)
      return fail(CUDA_ERROR_INVALID_DEVICE,
                  "srcDevice and dstDevice are both {}; pass two different devices", srcDevice);
    *value = answer;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags) {
  return enter([&](Driver& driver) {
    if (Flags != 0) return refuse_flags(Flags, "Flags");
    std::shared_ptr<Context> context;
    const CUresult found = find_working(driver, context);
    if (found != CUDA_SUCCESS) return found;
    const auto peer = driver.find_context(peerContext);
    if (!peer) return refuse_context(peerContext);
    if (peer == context)
      return fail(CUDA_ERROR_INVALID_CONTEXT,
                  "the context is the current one, which needs no access to itself; pass one of "
                  "another device");
    if (!can_access(context->device.ordinal, peer->device.ordinal))
      return fail(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
                  "both contexts are of device {}, which needs no access to itself; pass one of "
                  "another device",
                  peer->device.ordinal);
    switch (driver.peers().enable(*context, *peer)) {
      case PeerGrants::Answer::enabled:
        return CUDA_SUCCESS;
      case PeerGrants::Answer::enabled_before:
        return fail(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED,
                    "the current context has access to device {} already; enable it once",
                    peer->device.ordinal);
      case PeerGrants::Answer::destroyed:
        break;
    }
    return refuse_context(peerContext);
  });
}

CUresult cuCtxDisablePeerAccess(CUcontext peerContext) {
  return enter([&](Driver& driver) {
    std::shared_ptr<Context> context;
    const CUresult found = find_working(driver, context);
    if (found != CUDA_SUCCESS) return found;
    const auto peer = driver.find_context(peerContext);
    if (!peer) return refuse_context(peerContext);
    // Work that was launched earlier may still access the memory.
    context->device.engine.wait_for_device();
    if (driver.peers().disable(*context, *peer)) return CUDA_SUCCESS;
    return fail(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED,
                "the current context has no access to device {}; enable it with "
                "cuCtxEnablePeerAccess first",
                peer->device.ordinal);
  });
}
