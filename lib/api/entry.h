// How a C function begins and ends: refuses what cannot work, finds what it works on, and lets no
// exception out.
#pragma once

#include <memory>
#include <new>
#include <system_error>

#include "api/exports.h"
#include "base/log.h"
#include "runtime/current_context.h"
#include "runtime/driver.h"
#include "runtime/results.h"
#include "streams/host_functions.h"

namespace wherry::impl {

// Calls body(Driver&), which returns a CUresult.
template <typename Body>
CUresult enter(const Body& body) noexcept {
  Driver* driver = Driver::current();
  if (driver == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  // A host function that waited for its own stream would wait for ever.
  if (HostFunctionThread::is_current_thread()) return CUDA_ERROR_NOT_PERMITTED;
  try {
    return body(*driver);
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  } catch (const std::system_error& error) {
    log_line("{}", error.what());
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
}

// After work was waited for with this result: what pools hold beyond what they may keep goes back.
CUresult waited(WorkStatus status);

// What a launch with this status answers: where launches block, once the work of its stream has
// finished.
CUresult launched(const Driver& driver, const StreamHandle& stream, WorkStatus status);

// What a stream argument means where the NULL stream is the calling thread's own.
inline CUstream per_thread(CUstream argument) {
  return argument == nullptr ? CU_STREAM_PER_THREAD : argument;
}
// What a stream argument means; default streams need a current context.
CUresult find_stream(Driver& driver, CUstream argument, StreamHandle& stream);
// ... one whose context has not failed: also its error.
CUresult find_working_stream(Driver& driver, CUstream argument, StreamHandle& stream);

}  // namespace wherry::impl
