/* Kept for sources that include it: cuda_runtime.h has the functions. */
#ifndef __SM_20_INTRINSICS_H__
#define __SM_20_INTRINSICS_H__

#include "cuda_runtime.h"

#endif
