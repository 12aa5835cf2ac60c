/* The words of CUDA's language. In .cu files `wherry nvcc` understands them; in other files, words
 * like __host__ and __device__ mean nothing. Compiles as C11 and C++. */
#ifndef __HOST_DEFINES_H__
#define __HOST_DEFINES_H__

#ifndef __CUDACC__
#define __host__
#define __device__
#define __global__
#define __constant__
#define __managed__
#define __forceinline__ inline __attribute__((always_inline))
#endif

/* How many threads and registers a kernel is made for makes no difference on a CPU. */
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __grid_constant__
#define __inline_hint__
#define __no_return__ __attribute__((noreturn))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __builtin_align__(bytes) __attribute__((aligned(bytes)))

#endif
