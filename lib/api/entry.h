// Common start and end of the C functions: refuses calls that cannot work, finds the objects that
// handles name, and lets no exception out.
#pragma once

#include <memory>
#include <new>
#include <system_error>
#include <utility>

#include "api/exports.h"
#include "api/failed_calls.h"
#include "base/log.h"
#include "objects/current_context.h"
#include "objects/driver.h"
#include "objects/failures/last_failure.h"
#include "objects/failures/refusals.h"
#include "objects/failures/results.h"
#include "streams/serving_thread.h"

namespace wherry::impl {

// Calls body(Driver&), which returns a CUresult, without recording a failure.
template <typename Body>
CUresult enter_unrecorded(const Body& body) noexcept {
  Driver* driver = Driver::current();
  if (driver == nullptr)
    return fail(CUDA_ERROR_NOT_INITIALIZED,
                "cuInit has not succeeded in this process; call cuInit(0) first (a child of fork() "
                "cannot use the library)");
  if (serves_streams())
    return fail(CUDA_ERROR_NOT_PERMITTED,
                "a host function or a kernel of a coherent device made the call, which could wait "
                "for itself; let another thread of the program make it");
  try {
    return body(*driver);
  } catch (const std::bad_alloc&) {
    return refuse_own_data();
  } catch (const std::system_error& error) {
    log_error("{}", error.what());
    return fail(CUDA_ERROR_OPERATING_SYSTEM, "{}", error.what());
  }
}

// Calls body(Driver&), which returns a CUresult. `call` is the C function's name, for the message
// of a failure; helpers between the C function and enter() pass it on.
template <typename Body>
CUresult enter(const char* call, const Body& body) noexcept {
  begin_call();
  const CUresult result = enter_unrecorded(body);
  if (result != CUDA_SUCCESS) [[unlikely]]
    end_failed_call(call, result);
  return result;
}
// enter() for use in the C function itself, which becomes `call`.
template <typename Body>
CUresult enter(const Body& body, const char* call = __builtin_FUNCTION()) noexcept {
  return enter(call, body);
}

// Like enter(), for a call that may wait for other work, so that a capture may forbid it
// (Captures::refuse_unsafe).
template <typename Body>
CUresult enter_unsafe(const char* call, const Body& body) noexcept {
  return enter(call, [&](Driver& driver) {
    const CUresult safe = driver.captures().refuse_unsafe();
    return safe == CUDA_SUCCESS ? body(driver) : safe;
  });
}
template <typename Body>
CUresult enter_unsafe(const Body& body, const char* call = __builtin_FUNCTION()) noexcept {
  return enter_unsafe(call, body);
}

// Called after waiting for work, with the status. Also returns memory to Linux that pools hold
// beyond their thresholds.
CUresult waited(WorkStatus status);

// The result of a launch call with this status. In a context in which launches block, first waits
// for the stream's work.
CUresult launched(const Driver& driver, const StreamHandle& stream, WorkStatus status);

// Translates a stream argument of functions whose NULL stream is the calling thread's own.
inline CUstream per_thread(CUstream argument) {
  return argument == nullptr ? CU_STREAM_PER_THREAD : argument;
}
// Each of these finds the stream that an argument names. Default streams need a current context.
//
// For a call that only asks for properties of a stream that never change.
CUresult find_any_stream(Driver& driver, CUstream argument, StreamHandle& stream);
// Finds the stream for a call that uses it. Fails if the stream is being captured
// (Captures::refuse).
CUresult find_stream(Driver& driver, CUstream argument, StreamHandle& stream);
// Like find_stream(), but fails with the context's error if the context has failed.
CUresult find_working_stream(Driver& driver, CUstream argument, StreamHandle& stream);

// A stream that is given work, which becomes a node of a graph while the stream is captured.
struct WorkStream : StreamHandle {
  bool is_captured = false;
};
// Finds the stream for a call that gives it work. If the stream is captured, fails with the
// context's error if the context has failed.
CUresult find_work_stream(Driver& driver, CUstream argument, WorkStream& stream);
// Gives the work to the stream: runs work(driver, stream) now, or adds it as a node.
template <typename Work>
CUresult give(Driver& driver, const WorkStream& stream, CUgraphNodeType type, Work work) {
  if (!stream.is_captured) return work(driver, stream);
  return driver.captures().add(stream, {type, stream.context, std::move(work)});
}

}  // namespace wherry::impl
