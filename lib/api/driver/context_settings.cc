// The C functions that change and query the settings of a context.
#include "objects/context_settings.h"
#include "api/entry.h"
#include "objects/failures/bad_arguments.h"
#include "objects/thread_contexts.h"

using namespace wherry::impl;

namespace {

// Runs body(context) with the current context.
template <typename Body>
CUresult enter_current(const Body& body, const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    std::shared_ptr<Context> context;
    const CUresult found = find_working(driver, context);
    return found == CUDA_SUCCESS ? body(*context) : found;
  });
}

// Stores the result of body(context) for the current context. `name` is the argument's name.
template <typename Value, typename Body>
CUresult tell_of_current(const char* name, Value* value, const Body& body,
                         const char* call = __builtin_FUNCTION()) {
  return enter_current(
      [&](const Context& context) {
        if (value == nullptr) return refuse_null(name);
        *value = body(context);
        return CUDA_SUCCESS;
      },
      call);
}

CUresult refuse_limit(CUlimit limit) {
  if (limit < CU_LIMIT_STACK_SIZE || limit >= CU_LIMIT_MAX)
    return refuse_value("limit", static_cast<int>(limit), "CUlimit");
  return fail(CUDA_ERROR_UNSUPPORTED_LIMIT,
              "limit {} does not exist here; pass CU_LIMIT_STACK_SIZE, _PRINTF_FIFO_SIZE or "
              "_MALLOC_HEAP_SIZE",
              static_cast<int>(limit));
}

CUresult set_primary_flags(CUdevice dev, unsigned flags, bool also_active,
                           const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    Device* device = driver.device(dev);
    if (device == nullptr) return refuse_device(driver.runtime(), dev);
    if (!are_context_flags(flags)) return refuse_context_flags(flags);
    const LockGuard guard(device->lock);
    if (device->primary && !also_active)
      return fail(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE,
                  "the primary context of device {} is in use; set its flags before that, or with "
                  "cuDevicePrimaryCtxSetFlags_v2",
                  dev);
    device->primary_flags = flags;
    if (device->primary) device->primary->set_flags(flags);
    return CUDA_SUCCESS;
  });
}

}  // namespace

CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags) {
  return set_primary_flags(dev, flags, false);
}
CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags) {
  return set_primary_flags(dev, flags, true);
}

CUresult cuCtxGetFlags(unsigned int* flags) {
  return tell_of_current(
      "flags", flags, [](const Context& context) -> unsigned { return context.settings->flags; });
}

CUresult cuCtxSetFlags(unsigned int flags) {
  return enter_current([&](const Context& context) {
    if (!are_context_flags(flags)) return refuse_context_flags(flags);
    context.set_flags(flags);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetId(CUcontext ctx, unsigned long long* ctxId) {
  return enter([&](Driver& driver) {
    if (ctxId == nullptr) return refuse_null("ctxId");
    const CUcontext asked = ctx != nullptr ? ctx : ThreadContexts::mine().current();
    if (!driver.find_context(asked)) return refuse_context(asked);
    // The handle serves as the id, because handles are never reused.
    *ctxId = reinterpret_cast<std::uintptr_t>(asked);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int* version) {
  return enter([&](Driver& driver) {
    if (version == nullptr) return refuse_null("version");
    const CUcontext asked = ctx != nullptr ? ctx : ThreadContexts::mine().current();
    if (!driver.find_context(asked)) return refuse_context(asked);
    *version = 3020;  // of the two versions, the one with 64-bit addresses
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetLimit(size_t* pvalue, CUlimit limit) {
  return enter_current([&](const Context& context) {
    if (pvalue == nullptr) return refuse_null("pvalue");
    const auto value = context.settings->limit(limit);
    if (!value) return refuse_limit(limit);
    *pvalue = *value;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  return enter_current([&](const Context& context) {
    return context.settings->set_limit(limit, value) ? CUDA_SUCCESS : refuse_limit(limit);
  });
}

CUresult cuCtxGetCacheConfig(CUfunc_cache* pconfig) {
  return tell_of_current("pconfig", pconfig, [](const Context& context) -> CUfunc_cache {
    return context.settings->cache_config;
  });
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
  return enter_current([&](const Context& context) {
    if (config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL)
      return refuse_value("config", static_cast<int>(config), "CUfunc_cache");
    context.settings->cache_config = config;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxAttach(CUcontext* pctx, unsigned int flags) {
  return enter_current([&](const Context& context) {
    if (pctx == nullptr) return refuse_null("pctx");
    if (flags != 0) return refuse_flags(flags);
    ++context.settings->users;
    *pctx = context.handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxDetach(CUcontext ctx) {
  return enter([&](Driver& driver) {
    const auto context = driver.find_context(ctx);
    if (!context) return refuse_context(ctx);
    if (context->primary) return refuse_primary(ctx);
    return --context->settings->users == 0 ? cuCtxDestroy_v2(ctx) : CUDA_SUCCESS;
  });
}

// ---- profiling: no profiler can be attached, so these do nothing

CUresult cuProfilerStart(void) {
  return enter_current([](const Context&) { return CUDA_SUCCESS; });
}
CUresult cuProfilerStop(void) {
  return enter_current([](const Context&) { return CUDA_SUCCESS; });
}
