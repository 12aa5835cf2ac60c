/* CUDA's types of the runtime API, under the name of this header there. */
#ifndef __DRIVER_TYPES_H__
#define __DRIVER_TYPES_H__

#include "../cuda_runtime_api.h"
#include "vector_types.h"

#endif
