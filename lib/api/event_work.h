// The work of events and host functions, as values: for streams, and for nodes of graphs.
#pragma once

#include <memory>

#include "api/entry.h"

namespace wherry::impl {

// Records the event. Requires: the stream is of the event's context.
GraphWork record_work(std::shared_ptr<CudaEvent> event);
// Waits for the recording that the event stands for when the work is given to the stream.
GraphWork wait_work(std::shared_ptr<const CudaEvent> event);
GraphWork host_work(CUhostFn function, void* data);

// Returns CUDA_ERROR_INVALID_VALUE, because the flag `flag` requires a stream that is captured.
CUresult refuse_external(const char* flag);

}  // namespace wherry::impl
