// Common start and end of the C functions: refuses calls that cannot work, finds the objects that
// handles name, and lets no exception out.
#pragma once

#include <memory>
#include <new>
#include <system_error>

#include "api/exports.h"
#include "base/log.h"
#include "runtime/current_context.h"
#include "runtime/driver.h"
#include "runtime/results.h"
#include "streams/serving_thread.h"

namespace wherry::impl {

// Calls body(Driver&), which returns a CUresult.
template <typename Body>
CUresult enter(const Body& body) noexcept {
  Driver* driver = Driver::current();
  if (driver == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (serves_streams()) return CUDA_ERROR_NOT_PERMITTED;
  try {
    return body(*driver);
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  } catch (const std::system_error& error) {
    log_line("{}", error.what());
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
}

// To be called after waiting for work, with its result. Also returns memory to Linux that pools
// hold beyond their thresholds.
CUresult waited(WorkStatus status);

// The result of a launch call with this status. In a context in which launches block, first waits
// for the stream's work.
CUresult launched(const Driver& driver, const StreamHandle& stream, WorkStatus status);

// The meaning of a stream argument for functions whose NULL stream is the calling thread's own.
inline CUstream per_thread(CUstream argument) {
  return argument == nullptr ? CU_STREAM_PER_THREAD : argument;
}
// Finds the stream that an argument names. Default streams need a current context.
CUresult find_stream(Driver& driver, CUstream argument, StreamHandle& stream);
// The same; fails with the context's error if the context has failed.
CUresult find_working_stream(Driver& driver, CUstream argument, StreamHandle& stream);

}  // namespace wherry::impl
