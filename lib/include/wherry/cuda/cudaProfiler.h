/* cuProfilerStart() and cuProfilerStop(), which cuda.h declares. */
#ifndef __cuda_cuda_profiler_h__
#define __cuda_cuda_profiler_h__

#include "../cuda.h"

#endif
