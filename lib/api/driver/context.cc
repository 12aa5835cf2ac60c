// The C functions of contexts, primary and other ones.
#include "api/entry.h"
#include "objects/context_settings.h"
#include "objects/failures/bad_arguments.h"
#include "objects/thread_contexts.h"

using namespace wherry::impl;

namespace {

CUresult refuse_affinity() {
  return fail(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY,
              "a context always has its whole device; pass no parameters of execution affinity");
}

CUresult create(CUcontext* pctx, unsigned flags, CUdevice dev,
                const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    if (pctx == nullptr) return refuse_null("pctx");
    if (!are_context_flags(flags)) return refuse_context_flags(flags);
    Device* device = driver.device(dev);
    if (device == nullptr) return refuse_device(driver.runtime(), dev);
    const CUcontext handle = driver.create_context(*device, flags);
    const auto context = driver.find_context(handle);
    const CUresult health = refuse_status(device->engine.status(*context->work));
    if (health != CUDA_SUCCESS) {
      driver.destroy_context(handle);
      return health;
    }
    ThreadContexts::mine().push(handle);
    *pctx = handle;
    return CUDA_SUCCESS;
  });
}

CUresult destroy(CUcontext ctx, const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    if (!driver.destroy_context(ctx))
      return driver.find_context(ctx) ? refuse_primary(ctx) : refuse_context(ctx);
    ThreadContexts& mine = ThreadContexts::mine();
    if (mine.current() == ctx) mine.pop();
    return CUDA_SUCCESS;
  });
}

CUresult push(CUcontext ctx, const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    if (!driver.find_context(ctx)) return refuse_context(ctx);
    ThreadContexts::mine().push(ctx);
    return CUDA_SUCCESS;
  });
}

CUresult pop(CUcontext* pctx, const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver&) {
    ThreadContexts& mine = ThreadContexts::mine();
    if (mine.current() == nullptr)
      return fail(CUDA_ERROR_INVALID_CONTEXT,
                  "no context is current in this thread; pop only what was pushed");
    const CUcontext top = mine.pop();
    if (pctx != nullptr) *pctx = top;
    return CUDA_SUCCESS;
  });
}

CUresult release(CUdevice dev, const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    Device* device = driver.device(dev);
    if (device == nullptr) return refuse_device(driver.runtime(), dev);
    if (driver.release_primary(*device)) return CUDA_SUCCESS;
    return fail(CUDA_ERROR_INVALID_CONTEXT,
                "the primary context of device {} is not in use; release it only as often as "
                "cuDevicePrimaryCtxRetain was called",
                dev);
  });
}

CUresult reset(CUdevice dev, const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    Device* device = driver.device(dev);
    if (device == nullptr) return refuse_device(driver.runtime(), dev);
    driver.reset(*device);
    return CUDA_SUCCESS;
  });
}

}  // namespace

CUresult cuDevicePrimaryCtxRetain(CUcontext* pctx, CUdevice dev) {
  return enter([&](Driver& driver) {
    if (pctx == nullptr) return refuse_null("pctx");
    Device* device = driver.device(dev);
    if (device == nullptr) return refuse_device(driver.runtime(), dev);
    *pctx = driver.retain_primary(*device);
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev) {
  return release(dev);
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev) {
  return release(dev);
}
CUresult cuDevicePrimaryCtxReset(CUdevice dev) {
  return reset(dev);
}
CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev) {
  return reset(dev);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int* flags, int* active) {
  return enter([&](Driver& driver) {
    if (flags == nullptr) return refuse_null("flags");
    if (active == nullptr) return refuse_null("active");
    Device* device = driver.device(dev);
    if (device == nullptr) return refuse_device(driver.runtime(), dev);
    const LockGuard guard(device->lock);
    *flags = device->primary ? device->primary->settings->flags.load() : device->primary_flags;
    *active = device->primary ? 1 : 0;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxCreate(CUcontext* pctx, unsigned int flags, CUdevice dev) {
  return create(pctx, flags, dev);
}
CUresult cuCtxCreate_v2(CUcontext* pctx, unsigned int flags, CUdevice dev) {
  return create(pctx, flags, dev);
}
CUresult cuCtxCreate_v3(CUcontext* pctx, CUexecAffinityParam* paramsArray, int numParams,
                        unsigned int flags, CUdevice dev) {
  if (paramsArray == nullptr && numParams == 0) return create(pctx, flags, dev);
  return enter([&](Driver&) {
    if (paramsArray == nullptr) return refuse_null("paramsArray");
    if (numParams <= 0)
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "numParams is {}, and paramsArray is not NULL; pass its length", numParams);
    return refuse_affinity();
  });
}
CUresult cuCtxCreate_v4(CUcontext* pctx, CUctxCreateParams* ctxCreateParams, unsigned int flags,
                        CUdevice dev) {
  const bool affinity =
      ctxCreateParams != nullptr && ctxCreateParams->execAffinityParams != nullptr;
  const bool graphics = ctxCreateParams != nullptr && ctxCreateParams->cigParams != nullptr;
  if (!affinity && !graphics) return create(pctx, flags, dev);
  return enter([&](Driver&) {
    // The caller may pass one of the two; neither is supported.
    if (affinity && graphics)
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "execAffinityParams and cigParams are both given; pass NULL for both");
    return affinity ? refuse_affinity()
                    : fail(CUDA_ERROR_NOT_SUPPORTED,
                           "contexts for graphics are not supported; pass NULL as cigParams");
  });
}

CUresult cuCtxDestroy(CUcontext ctx) {
  return destroy(ctx);
}
CUresult cuCtxDestroy_v2(CUcontext ctx) {
  return destroy(ctx);
}
CUresult cuCtxPushCurrent(CUcontext ctx) {
  return push(ctx);
}
CUresult cuCtxPushCurrent_v2(CUcontext ctx) {
  return push(ctx);
}
CUresult cuCtxPopCurrent(CUcontext* pctx) {
  return pop(pctx);
}
CUresult cuCtxPopCurrent_v2(CUcontext* pctx) {
  return pop(pctx);
}

CUresult cuCtxSetCurrent(CUcontext ctx) {
  return enter([&](Driver& driver) {
    if (ctx != nullptr && !driver.find_context(ctx)) return refuse_context(ctx);
    ThreadContexts::mine().set(ctx);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetCurrent(CUcontext* pctx) {
  return enter([&](Driver&) {
    if (pctx == nullptr) return refuse_null("pctx");
    *pctx = ThreadContexts::mine().current();
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetDevice(CUdevice* device) {
  return enter([&](Driver& driver) {
    if (device == nullptr) return refuse_null("device");
    std::shared_ptr<Context> context;
    const CUresult found = find_current(driver, context);
    if (found == CUDA_SUCCESS) *device = context->device.ordinal;
    return found;
  });
}

CUresult cuCtxSynchronize(void) {
  return enter([](Driver& driver) {
    std::shared_ptr<Context> context;
    const CUresult found = find_current(driver, context);
    if (found != CUDA_SUCCESS) return found;
    const CUresult free = driver.captures().refuse(*context);
    if (free != CUDA_SUCCESS) return free;
    return waited(context->device.engine.wait_all(context->work));
  });
}
