/* CUDA's types, under the name of this header there. */
#ifndef __BUILTIN_TYPES_H__
#define __BUILTIN_TYPES_H__

#include "driver_types.h"
#include "vector_types.h"

#endif
