/* Kept for sources that include it: cuda_runtime.h has the functions. */
#ifndef __DEVICE_FUNCTIONS_H__
#define __DEVICE_FUNCTIONS_H__

#include "cuda_runtime.h"

#endif
