// The runtime API's errors: their names, and each thread's last error.
#include <algorithm>
#include <array>
#include <utility>

#include "api/cudart/entry.h"
#include "objects/failures/error_texts.h"

using namespace wherry::impl;

namespace {

struct ErrorRow {
  cudaError_t code;
  const char* name;
  const char* description;  // null: that of the CUresult with this number
};

#define SAME(code)       \
  ErrorRow {             \
    code, #code, nullptr \
  }
#define OWN(code, description) \
  ErrorRow {                   \
    code, #code, description   \
  }

// Sorted by code, ascending.
constexpr std::array errors{
    SAME(cudaSuccess),
    SAME(cudaErrorInvalidValue),
    SAME(cudaErrorMemoryAllocation),
    SAME(cudaErrorInitializationError),
    SAME(cudaErrorCudartUnloading),
    SAME(cudaErrorProfilerDisabled),
    SAME(cudaErrorProfilerNotInitialized),
    SAME(cudaErrorProfilerAlreadyStarted),
    SAME(cudaErrorProfilerAlreadyStopped),
    OWN(cudaErrorInvalidConfiguration, "invalid configuration of a launch"),
    OWN(cudaErrorInvalidPitchValue, "invalid pitch"),
    OWN(cudaErrorInvalidSymbol, "invalid symbol"),
    OWN(cudaErrorInvalidHostPointer, "invalid host pointer"),
    OWN(cudaErrorInvalidDevicePointer, "invalid device pointer"),
    OWN(cudaErrorInvalidTexture, "invalid texture"),
    OWN(cudaErrorInvalidTextureBinding, "invalid texture binding"),
    OWN(cudaErrorInvalidChannelDescriptor, "invalid channel descriptor"),
    OWN(cudaErrorInvalidMemcpyDirection, "invalid direction of a copy"),
    OWN(cudaErrorAddressOfConstant, "the address of a constant was taken"),
    OWN(cudaErrorTextureFetchFailed, "a texture could not be fetched"),
    OWN(cudaErrorTextureNotBound, "the texture is not bound"),
    OWN(cudaErrorSynchronizationError, "a synchronization failed"),
    OWN(cudaErrorInvalidFilterSetting, "invalid filter setting"),
    OWN(cudaErrorInvalidNormSetting, "invalid norm setting"),
    OWN(cudaErrorMixedDeviceExecution, "execution on host and device was mixed"),
    OWN(cudaErrorNotYetImplemented, "not implemented yet"),
    OWN(cudaErrorMemoryValueTooLarge, "the value for a memory size is too large"),
    SAME(cudaErrorStubLibrary),
    OWN(cudaErrorInsufficientDriver, "the driver is older than the runtime"),
    SAME(cudaErrorCallRequiresNewerDriver),
    OWN(cudaErrorInvalidSurface, "invalid surface"),
    OWN(cudaErrorDuplicateVariableName, "several variables share one name"),
    OWN(cudaErrorDuplicateTextureName, "several textures share one name"),
    OWN(cudaErrorDuplicateSurfaceName, "several surfaces share one name"),
    SAME(cudaErrorDevicesUnavailable),
    OWN(cudaErrorIncompatibleDriverContext,
        "the driver's current context does not fit the runtime"),
    OWN(cudaErrorMissingConfiguration, "the launch was not configured"),
    OWN(cudaErrorPriorLaunchFailure, "an earlier launch failed"),
    OWN(cudaErrorLaunchMaxDepthExceeded, "launches from kernels are nested too deeply"),
    OWN(cudaErrorLaunchFileScopedTex, "a nested launch uses textures of its file"),
    OWN(cudaErrorLaunchFileScopedSurf, "a nested launch uses surfaces of its file"),
    OWN(cudaErrorSyncDepthExceeded, "kernels wait for each other too deeply"),
    OWN(cudaErrorLaunchPendingCountExceeded, "too many launches from kernels are pending"),
    OWN(cudaErrorInvalidDeviceFunction, "invalid device function"),
    SAME(cudaErrorNoDevice),
    SAME(cudaErrorInvalidDevice),
    SAME(cudaErrorDeviceNotLicensed),
    OWN(cudaErrorSoftwareValidityNotEstablished, "the software could not be validated"),
    OWN(cudaErrorStartupFailure, "the runtime could not start"),
    SAME(cudaErrorInvalidKernelImage),
    SAME(cudaErrorDeviceUninitialized),
    SAME(cudaErrorMapBufferObjectFailed),
    SAME(cudaErrorUnmapBufferObjectFailed),
    SAME(cudaErrorArrayIsMapped),
    SAME(cudaErrorAlreadyMapped),
    SAME(cudaErrorNoKernelImageForDevice),
    SAME(cudaErrorAlreadyAcquired),
    SAME(cudaErrorNotMapped),
    SAME(cudaErrorNotMappedAsArray),
    SAME(cudaErrorNotMappedAsPointer),
    SAME(cudaErrorECCUncorrectable),
    SAME(cudaErrorUnsupportedLimit),
    SAME(cudaErrorDeviceAlreadyInUse),
    SAME(cudaErrorPeerAccessUnsupported),
    SAME(cudaErrorInvalidPtx),
    SAME(cudaErrorInvalidGraphicsContext),
    SAME(cudaErrorNvlinkUncorrectable),
    SAME(cudaErrorJitCompilerNotFound),
    SAME(cudaErrorUnsupportedPtxVersion),
    SAME(cudaErrorJitCompilationDisabled),
    SAME(cudaErrorUnsupportedExecAffinity),
    SAME(cudaErrorUnsupportedDevSideSync),
    SAME(cudaErrorContained),
    SAME(cudaErrorInvalidSource),
    SAME(cudaErrorFileNotFound),
    SAME(cudaErrorSharedObjectSymbolNotFound),
    SAME(cudaErrorSharedObjectInitFailed),
    SAME(cudaErrorOperatingSystem),
    SAME(cudaErrorInvalidResourceHandle),
    SAME(cudaErrorIllegalState),
    SAME(cudaErrorLossyQuery),
    SAME(cudaErrorSymbolNotFound),
    SAME(cudaErrorNotReady),
    SAME(cudaErrorIllegalAddress),
    SAME(cudaErrorLaunchOutOfResources),
    SAME(cudaErrorLaunchTimeout),
    SAME(cudaErrorLaunchIncompatibleTexturing),
    SAME(cudaErrorPeerAccessAlreadyEnabled),
    SAME(cudaErrorPeerAccessNotEnabled),
    SAME(cudaErrorSetOnActiveProcess),
    SAME(cudaErrorContextIsDestroyed),
    SAME(cudaErrorAssert),
    SAME(cudaErrorTooManyPeers),
    SAME(cudaErrorHostMemoryAlreadyRegistered),
    SAME(cudaErrorHostMemoryNotRegistered),
    SAME(cudaErrorHardwareStackError),
    SAME(cudaErrorIllegalInstruction),
    SAME(cudaErrorMisalignedAddress),
    SAME(cudaErrorInvalidAddressSpace),
    SAME(cudaErrorInvalidPc),
    SAME(cudaErrorLaunchFailure),
    SAME(cudaErrorCooperativeLaunchTooLarge),
    SAME(cudaErrorTensorMemoryLeak),
    SAME(cudaErrorNotPermitted),
    SAME(cudaErrorNotSupported),
    SAME(cudaErrorSystemNotReady),
    SAME(cudaErrorSystemDriverMismatch),
    SAME(cudaErrorCompatNotSupportedOnDevice),
    SAME(cudaErrorMpsConnectionFailed),
    SAME(cudaErrorMpsRpcFailure),
    SAME(cudaErrorMpsServerNotReady),
    SAME(cudaErrorMpsMaxClientsReached),
    SAME(cudaErrorMpsMaxConnectionsReached),
    SAME(cudaErrorMpsClientTerminated),
    SAME(cudaErrorCdpNotSupported),
    SAME(cudaErrorCdpVersionMismatch),
    SAME(cudaErrorStreamCaptureUnsupported),
    SAME(cudaErrorStreamCaptureInvalidated),
    SAME(cudaErrorStreamCaptureMerge),
    SAME(cudaErrorStreamCaptureUnmatched),
    SAME(cudaErrorStreamCaptureUnjoined),
    SAME(cudaErrorStreamCaptureIsolation),
    SAME(cudaErrorStreamCaptureImplicit),
    SAME(cudaErrorCapturedEvent),
    SAME(cudaErrorStreamCaptureWrongThread),
    SAME(cudaErrorTimeout),
    SAME(cudaErrorGraphExecUpdateFailure),
    SAME(cudaErrorExternalDevice),
    SAME(cudaErrorInvalidClusterSize),
    SAME(cudaErrorFunctionNotLoaded),
    SAME(cudaErrorInvalidResourceType),
    SAME(cudaErrorInvalidResourceConfiguration),
    SAME(cudaErrorUnknown),
    OWN(cudaErrorApiFailureBase, "an error of the driver that has no number of its own"),
};

#undef SAME
#undef OWN

static_assert(std::is_sorted(errors.begin(), errors.end(),
                             [](const ErrorRow& a, const ErrorRow& b) { return a.code < b.code; }));

constexpr const char* unknown_code = "unrecognized error code";

const ErrorRow* find(cudaError_t code) {
  const auto* const found = std::lower_bound(
      errors.begin(), errors.end(), code,
      [](const ErrorRow& entry, cudaError_t wanted) { return entry.code < wanted; });
  return found != errors.end() && found->code == code ? &*found : nullptr;
}

}  // namespace

namespace wherry::impl {

cudaError_t to_runtime_error(CUresult result) {
  const auto same = static_cast<cudaError_t>(result);
  return find(same) != nullptr ? same : cudaErrorUnknown;
}

}  // namespace wherry::impl

const char* cudaGetErrorName(cudaError_t error) {
  const ErrorRow* entry = find(error);
  return entry != nullptr ? entry->name : unknown_code;
}

const char* cudaGetErrorString(cudaError_t error) {
  const ErrorRow* entry = find(error);
  if (entry == nullptr) return unknown_code;
  return entry->description != nullptr ? entry->description
                                       : find_error_text(static_cast<CUresult>(error))->description;
}

cudaError_t cudaPeekAtLastError(void) {
  return RuntimeThread::mine().last_error;
}

cudaError_t cudaGetLastError(void) {
  return std::exchange(RuntimeThread::mine().last_error, cudaSuccess);
}
