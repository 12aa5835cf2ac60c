/* cudaProfilerStart() and cudaProfilerStop(), which cuda_runtime_api.h declares. */
#ifndef __CUDA_PROFILER_API_H__
#define __CUDA_PROFILER_API_H__

#include "../cuda_runtime_api.h"

#endif
