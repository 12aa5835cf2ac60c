// The C functions of streams, and launches into them.
#include <cstddef>
#include <vector>

#include "api/entry.h"

using namespace wherry::impl;

namespace {

CUresult create(CUstream* phStream, unsigned flags) {
  return enter([&](Driver& driver) {
    if (phStream == nullptr || (flags != CU_STREAM_DEFAULT && flags != CU_STREAM_NON_BLOCKING)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    std::shared_ptr<Context> context;
    const CUresult found = find_working(driver, context);
    if (found != CUDA_SUCCESS) return found;
    *phStream = driver.create_stream(
        context, flags == CU_STREAM_DEFAULT ? StreamKind::blocking : StreamKind::non_blocking);
    return CUDA_SUCCESS;
  });
}

CUresult destroy(CUstream handle) {
  return enter([&](Driver& driver) {
    return driver.destroy_stream(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  });
}

// Runs body(engine, stream) for a stream that exists.
template <typename Body>
CUresult enter_stream(CUstream argument, const Body& body) {
  return enter([&](Driver& driver) {
    StreamHandle handle;
    const CUresult found = find_stream(driver, argument, handle);
    if (found != CUDA_SUCCESS) return found;
    return body(handle.context->device.engine, handle);
  });
}

CUresult query(CUstream argument) {
  return enter_stream(argument, [](DeviceEngine& engine, const StreamHandle& handle) {
    const StreamState state = engine.query(handle.stream);
    const WorkStatus status = engine.status(*handle.context->work);
    if (status != WorkStatus::ok) return to_result(status);
    return state == StreamState::idle ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}

CUresult synchronize(CUstream argument) {
  return enter_stream(argument, [](DeviceEngine& engine, const StreamHandle& handle) {
    return to_result(engine.wait(handle.stream));
  });
}

CUresult launch_host(CUstream argument, CUhostFn function, void* data) {
  return enter_stream(argument, [&](DeviceEngine& engine, const StreamHandle& handle) {
    if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return to_result(engine.launch_host(handle.stream, function, data));
  });
}

CUresult launch(CUstream argument, wherryKernel kernel, const void* args, std::size_t args_size,
                std::size_t items) {
  return enter_stream(argument, [&](DeviceEngine& engine, const StreamHandle& handle) {
    if (kernel == nullptr || args_size > WHERRY_MAX_ARGS_SIZE ||
        (args == nullptr && args_size > 0)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const auto* bytes = static_cast<const std::byte*>(args);
    return to_result(engine.launch(handle.stream, kernel, {bytes, bytes + args_size}, items));
  });
}

}  // namespace

CUresult cuStreamCreate(CUstream* phStream, unsigned int Flags) {
  return create(phStream, Flags);
}
CUresult cuStreamCreateWithPriority(CUstream* phStream, unsigned int flags, int) {
  return create(phStream, flags);  // one level: any priority is taken as it
}

CUresult cuStreamDestroy(CUstream hStream) {
  return destroy(hStream);
}
CUresult cuStreamDestroy_v2(CUstream hStream) {
  return destroy(hStream);
}

CUresult cuStreamQuery(CUstream hStream) {
  return query(hStream);
}
CUresult cuStreamQuery_ptsz(CUstream hStream) {
  return query(per_thread(hStream));
}

CUresult cuStreamSynchronize(CUstream hStream) {
  return synchronize(hStream);
}
CUresult cuStreamSynchronize_ptsz(CUstream hStream) {
  return synchronize(per_thread(hStream));
}

CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void* userData) {
  return launch_host(hStream, fn, userData);
}
CUresult cuLaunchHostFunc_ptsz(CUstream hStream, CUhostFn fn, void* userData) {
  return launch_host(per_thread(hStream), fn, userData);
}

CUresult wherryLaunch(CUstream stream, wherryKernel kernel, const void* args, size_t args_size,
                      size_t items) {
  return launch(stream, kernel, args, args_size, items);
}
CUresult wherryLaunch_ptsz(CUstream stream, wherryKernel kernel, const void* args, size_t args_size,
                           size_t items) {
  return launch(per_thread(stream), kernel, args, args_size, items);
}
