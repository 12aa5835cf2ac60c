// Translates results of the library's parts into results of the C functions.
#pragma once

#include <wherry/cuda.h>

#include "runtime/runtime.h"
#include "streams/stream.h"

namespace wherry::impl {

CUresult to_result(WorkStatus status);
CUresult to_result(Pinning::Result result);

}  // namespace wherry::impl
