// The C functions of streams and of the work given to them.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "api/entry.h"
#include "api/event_work.h"
#include "objects/failures/bad_arguments.h"

using namespace wherry::impl;

namespace {

CUresult create(CUstream* phStream, unsigned flags, int priority,
                const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    if (phStream == nullptr) return refuse_null("phStream");
    if (flags != CU_STREAM_DEFAULT && flags != CU_STREAM_NON_BLOCKING)
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "flags is {:#x}; pass CU_STREAM_DEFAULT or CU_STREAM_NON_BLOCKING", flags);
    std::shared_ptr<Context> context;
    const CUresult found = find_working(driver, context);
    if (found != CUDA_SUCCESS) return found;
    *phStream = driver.create_stream(
        context, flags == CU_STREAM_DEFAULT ? StreamKind::blocking : StreamKind::non_blocking,
        std::clamp(priority, greatest_priority, least_priority));
    return CUDA_SUCCESS;
  });
}

CUresult destroy(CUstream handle, const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    return driver.destroy_stream(handle) ? CUDA_SUCCESS : refuse_handle(handle);
  });
}

// Runs body(engine, stream) if the stream exists and is not being captured.
template <typename Body>
CUresult enter_stream(CUstream argument, const Body& body,
                      const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    StreamHandle handle;
    const CUresult found = find_stream(driver, argument, handle);
    if (found != CUDA_SUCCESS) return found;
    return body(handle.context->device.engine, handle);
  });
}

// Stores the result of body(handle) if the stream exists. `name` is the name of the argument
// `value`.
template <typename Value, typename Body>
CUresult tell(CUstream argument, const char* name, Value* value, const Body& body,
              const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    StreamHandle handle;
    const CUresult found = find_any_stream(driver, argument, handle);
    if (found != CUDA_SUCCESS) return found;
    if (value == nullptr) return refuse_null(name);
    *value = body(handle);
    return CUDA_SUCCESS;
  });
}

CUresult get_context(CUstream argument, CUcontext* context,
                     const char* call = __builtin_FUNCTION()) {
  return tell(
      argument, "pctx", context, [](const StreamHandle& handle) { return handle.context->handle; },
      call);
}

CUresult get_context(CUstream argument, CUcontext* context, CUgreenCtx* green,
                     const char* call = __builtin_FUNCTION()) {
  const CUresult result = get_context(argument, context, call);
  if (result == CUDA_SUCCESS && green != nullptr) *green = nullptr;
  return result;
}

CUresult query(CUstream argument, const char* call = __builtin_FUNCTION()) {
  return enter_stream(
      argument,
      [](DeviceEngine& engine, const StreamHandle& handle) {
        const StreamState state = engine.query(handle.stream);
        const WorkStatus status = engine.status(*handle.context->work);
        if (status != WorkStatus::ok) return refuse_status(status);
        return state == StreamState::idle ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
      },
      call);
}

CUresult add_callback(CUstream argument, CUstreamCallback callback, void* data, unsigned flags,
                      const char* call = __builtin_FUNCTION()) {
  return enter_stream(
      argument,
      [&](DeviceEngine& engine, const StreamHandle& handle) {
        if (callback == nullptr) return refuse_null("callback");
        if (flags != 0) return refuse_flags(flags);
        return refuse_status(engine.add_callback(handle.stream, [=](WorkStatus status) {
          callback(argument, to_result(status), data);
        }));
      },
      call);
}

// If devices and the host can access memory concurrently, an attachment changes nothing: it is only
// recorded, in the order of the stream.
CUresult attach(CUstream argument, CUdeviceptr address, std::size_t length, unsigned flags,
                const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    StreamHandle handle;
    const CUresult found = find_stream(driver, argument, handle);
    if (found != CUDA_SUCCESS) return found;
    Runtime& runtime = driver.runtime();
    const auto allocation = runtime.heap().find(address);
    if (!allocation || !allocation->owner.is_managed()) return refuse_range(runtime, address, 1);
    const std::uintptr_t base = runtime.heap().address_of(*allocation);
    if (base != address) return refuse_inside(address, base, allocation->bytes);
    if (length != 0 && length != allocation->bytes)
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "length is {}, and the allocation at {:#x} has {} bytes, which are attached only "
                  "as a whole; pass 0",
                  length, address, allocation->bytes);
    Attachment attachment{flags, {}};
    switch (flags) {
      case CU_MEM_ATTACH_GLOBAL:
      case CU_MEM_ATTACH_HOST:
        break;
      case CU_MEM_ATTACH_SINGLE:
        // For an attachment the NULL stream stands for all streams of its context.
        if (handle.stream->kind() == StreamKind::context_default)
          return fail(CUDA_ERROR_INVALID_VALUE,
                      "flags is CU_MEM_ATTACH_SINGLE, and the NULL stream stands for all streams; "
                      "pass one of cuStreamCreate");
        attachment.stream = handle.stream;
        break;
      default:
        return fail(CUDA_ERROR_INVALID_VALUE,
                    "flags is {:#x}; pass CU_MEM_ATTACH_GLOBAL, _HOST or _SINGLE", flags);
    }
    return refuse_status(handle.context->device.engine.enqueue_operation(
        handle.stream, [&runtime, allocation = *allocation, attachment](const Completion& done) {
          runtime.heap().attach(allocation, attachment);
          done();
        }));
  });
}

CUresult launch(CUstream argument, wherryKernel kernel, const void* args, std::size_t args_size,
                std::size_t items, const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    WorkStream handle;
    const CUresult found = find_work_stream(driver, argument, handle);
    if (found != CUDA_SUCCESS) return found;
    DeviceEngine& engine = handle.context->device.engine;
    if (kernel == nullptr) return refuse_null("kernel");
    if (args == nullptr && args_size > 0) return refuse_null("args");
    if (args_size > WHERRY_MAX_ARGS_SIZE)
      return fail(
          CUDA_ERROR_INVALID_VALUE,
          "args_size is {}, and at most {} (WHERRY_MAX_ARGS_SIZE); put the data into managed "
          "memory and pass a pointer to it",
          args_size, WHERRY_MAX_ARGS_SIZE);
    // The kernel may be in a module that has just been loaded, and use managed variables of
    // that module.
    if (!driver.runtime().variables().adopt_new())
      return fail(CUDA_ERROR_OUT_OF_MEMORY,
                  "there is no room for new managed variables; free managed memory");
    const auto* bytes = static_cast<const std::byte*>(args);
    std::vector<std::byte> copied(bytes, bytes + args_size);
    if (handle.is_captured)
      return give(driver, handle, CU_GRAPH_NODE_TYPE_KERNEL,
                  [kernel, copied = std::move(copied), items](Driver&, const StreamHandle& stream) {
                    return refuse_status(
                        stream.context->device.engine.launch(stream.stream, kernel, copied, items));
                  });
    const WorkStatus status = engine.launch(handle.stream, kernel, std::move(copied), items);
    if (status == WorkStatus::unknown_kernel)
      return fail(CUDA_ERROR_NOT_FOUND,
                  "the device finds no loaded module with the kernel at {:#x}; pass a function of "
                  "the program or of a shared object that is loaded",
                  reinterpret_cast<std::uintptr_t>(kernel));
    return launched(driver, handle, status);
  });
}

}  // namespace

CUresult cuStreamCreate(CUstream* phStream, unsigned int Flags) {
  return create(phStream, Flags, 0);
}
CUresult cuStreamCreateWithPriority(CUstream* phStream, unsigned int flags, int priority) {
  return create(phStream, flags, priority);
}

CUresult cuCtxGetStreamPriorityRange(int* leastPriority, int* greatestPriority) {
  return enter([&](Driver& driver) {
    const CUresult working = check_working(driver);
    if (working != CUDA_SUCCESS) return working;
    if (leastPriority != nullptr) *leastPriority = least_priority;
    if (greatestPriority != nullptr) *greatestPriority = greatest_priority;
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamDestroy(CUstream hStream) {
  return destroy(hStream);
}
CUresult cuStreamDestroy_v2(CUstream hStream) {
  return destroy(hStream);
}

CUresult cuStreamGetPriority(CUstream hStream, int* priority) {
  return tell(hStream, "priority", priority,
              [](const StreamHandle& handle) { return handle.stream->priority(); });
}

CUresult cuStreamGetFlags(CUstream hStream, unsigned* flags) {
  return tell(hStream, "flags", flags, [](const StreamHandle& handle) -> unsigned {
    return handle.stream->kind() == StreamKind::non_blocking ? CU_STREAM_NON_BLOCKING
                                                             : CU_STREAM_DEFAULT;
  });
}

CUresult cuStreamGetId(CUstream hStream, unsigned long long* id) {
  return tell(hStream, "streamId", id,
              [](const StreamHandle& handle) { return handle.stream->id(); });
}

CUresult cuStreamGetDevice(CUstream hStream, CUdevice* device) {
  return tell(hStream, "device", device,
              [](const StreamHandle& handle) { return handle.context->device.ordinal; });
}

CUresult cuStreamGetCtx(CUstream hStream, CUcontext* pctx) {
  return get_context(hStream, pctx);
}

CUresult cuStreamGetCtx_v2(CUstream hStream, CUcontext* pCtx, CUgreenCtx* pGreenCtx) {
  return get_context(hStream, pCtx, pGreenCtx);
}

CUresult cuStreamQuery(CUstream hStream) {
  return query(hStream);
}

CUresult cuStreamSynchronize(CUstream hStream) {
  return enter_stream(hStream, [](DeviceEngine& engine, const StreamHandle& handle) {
    return waited(engine.wait(handle.stream));
  });
}

CUresult cuStreamWaitEvent(CUstream hStream, CUevent event, unsigned flags) {
  return enter([&](Driver& driver) {
    if (flags != CU_EVENT_WAIT_DEFAULT && flags != CU_EVENT_WAIT_EXTERNAL)
      return refuse_bits(flags, CU_EVENT_WAIT_EXTERNAL, "Flags");
    WorkStream stream;
    const CUresult found = find_work_stream(driver, hStream, stream);
    if (found != CUDA_SUCCESS) return found;
    const auto waited_for = driver.find_event(event);
    if (!waited_for) return refuse_handle(event);
    const bool is_external = flags == CU_EVENT_WAIT_EXTERNAL;
    if (is_external && !stream.is_captured) return refuse_external("CU_EVENT_WAIT_EXTERNAL");
    if (!is_external) {
      if (const auto moment = waited_for->last_captured())
        return driver.captures().join(stream, *moment);
      if (stream.is_captured) return driver.captures().refuse_outside(stream);
    }
    return give(driver, stream, CU_GRAPH_NODE_TYPE_WAIT_EVENT, wait_work(waited_for));
  });
}

CUresult cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void* userData,
                             unsigned int flags) {
  return add_callback(hStream, callback, userData, flags);
}

CUresult cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length,
                                unsigned int flags) {
  return attach(hStream, dptr, length, flags);
}

CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn function, void* data) {
  return enter([&](Driver& driver) {
    WorkStream stream;
    const CUresult found = find_work_stream(driver, hStream, stream);
    if (found != CUDA_SUCCESS) return found;
    if (function == nullptr) return refuse_null("fn");
    return give(driver, stream, CU_GRAPH_NODE_TYPE_HOST, host_work(function, data));
  });
}

CUresult wherryLaunchKernel(CUstream stream, wherryKernel kernel, const void* args,
                            size_t args_size, size_t items) {
  return launch(stream, kernel, args, args_size, items);
}
