// The work of events and host functions, as values: for streams, and for nodes of graphs.
#pragma once

#include <memory>

#include "api/entry.h"

namespace wherry::impl {

// The event is of the context that the work is given to.
GraphWork record_work(std::shared_ptr<CudaEvent> event);
// Waits for what the event stands for when the work is given to its stream.
GraphWork wait_work(std::shared_ptr<const CudaEvent> event);
GraphWork host_work(CUhostFn function, void* data);

// CUDA_ERROR_INVALID_VALUE: the stream is not captured, which the flag of this name demands.
CUresult refuse_external(const char* flag);

}  // namespace wherry::impl
