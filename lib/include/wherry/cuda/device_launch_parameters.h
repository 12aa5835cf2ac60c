/* threadIdx and its kin. In kernels and in functions that they call, `wherry nvcc` replaces these
 * names; so the declarations only serve editors and files that never run on a device. */
#ifndef __DEVICE_LAUNCH_PARAMETERS_H__
#define __DEVICE_LAUNCH_PARAMETERS_H__

#include "vector_types.h"

#ifdef __cplusplus
extern const uint3 threadIdx;
extern const uint3 blockIdx;
extern const dim3 blockDim;
extern const dim3 gridDim;
static const int warpSize = 32;
#endif

#endif
