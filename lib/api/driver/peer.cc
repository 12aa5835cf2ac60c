// The C functions of peer access between devices.
#include "api/entry.h"

using namespace wherry::impl;

namespace {

// True for any two different devices: each can map every pool.
bool can_access(CUdevice device, CUdevice peer) {
  return device != peer;
}

// All devices are in one machine, so the link between them is its memory.
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
  return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult cuDeviceCanAccessPeer(int* canAccessPeer, CUdevice dev, CUdevice peerDev) {
  return enter([&](Driver& driver) {
    if (canAccessPeer == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (driver.device(dev) == nullptr || driver.device(peerDev) == nullptr)
      return CUDA_ERROR_INVALID_DEVICE;
    *canAccessPeer = can_access(dev, peerDev) ? 1 : 0;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attrib, CUdevice srcDevice,
                                 CUdevice dstDevice) {
  return enter([&](Driver& driver) {
    int answer = 0;
    if (value == nullptr || link_attribute(attrib, answer) != CUDA_SUCCESS)
      return CUDA_ERROR_INVALID_VALUE;
    if (driver.device(srcDevice) == nullptr || driver.device(dstDevice) == nullptr ||
        srcDevice == dstDevice)
      return CUDA_ERROR_INVALID_DEVICE;
    *value = answer;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags) {
  return enter([&](Driver& driver) {
    if (Flags != 0) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<Context> context;
    const CUresult found = find_working(driver, context);
    if (found != CUDA_SUCCESS) return found;
    const auto peer = driver.find_context(peerContext);
    if (!peer || peer == context) return CUDA_ERROR_INVALID_CONTEXT;
    if (!can_access(context->device.ordinal, peer->device.ordinal))
      return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    switch (driver.peers().enable(*context, *peer)) {
      case PeerGrants::Answer::enabled:
        return CUDA_SUCCESS;
      case PeerGrants::Answer::enabled_before:
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
      case PeerGrants::Answer::destroyed:
        break;
    }
    return CUDA_ERROR_INVALID_CONTEXT;
  });
}

CUresult cuCtxDisablePeerAccess(CUcontext peerContext) {
  return enter([&](Driver& driver) {
    std::shared_ptr<Context> context;
    const CUresult found = find_working(driver, context);
    if (found != CUDA_SUCCESS) return found;
    const auto peer = driver.find_context(peerContext);
    if (!peer) return CUDA_ERROR_INVALID_CONTEXT;
    // Work that was launched earlier may still access the memory.
    context->device.engine.wait_for_device();
    return driver.peers().disable(*context, *peer) ? CUDA_SUCCESS
                                                   : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  });
}
