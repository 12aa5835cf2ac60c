/* The CUDA runtime API in C++: cuda_runtime_api.h, the language of kernels, and the overloads for
 * typed pointers, kernels and variables. In C it is cuda_runtime_api.h.
 *
 * `wherry nvcc` includes it before each .cu file, as nvcc does. The parts for kernels are there in
 * .cu files only. */
#ifndef __CUDA_RUNTIME_H__
#define __CUDA_RUNTIME_H__

#include "builtin_types.h"
#include "host_defines.h"
#include "vector_functions.h"

#ifdef __cplusplus

#ifdef __CUDACC__
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "detail/atomics.h"
#include "detail/launch.h"
#include "detail/numbers.h"
#include "detail/rounding.h"
#include "detail/synchronization.h"
#include "detail/variables.h"
#include "device_launch_parameters.h"
#endif
#include "detail/overloads.h"

#endif
#endif
