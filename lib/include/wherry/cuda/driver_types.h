/* CUDA's types of the runtime API, in the header that CUDA has for them. */
#ifndef __DRIVER_TYPES_H__
#define __DRIVER_TYPES_H__

#include <limits.h>
#include <stddef.h>

#include "vector_types.h"

/* After vector_types.h, so that dim3 is that header's, which has conversions. */
#include "../cuda_runtime_api.h"

/* Values of cudaDevAttrComputeMode; devices always have the first one. */
enum cudaComputeMode {
  cudaComputeModeDefault = 0,
  cudaComputeModeExclusive = 1,
  cudaComputeModeProhibited = 2,
  cudaComputeModeExclusiveProcess = 3
};

#endif
