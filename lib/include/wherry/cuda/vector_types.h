/* The vector types of CUDA, with their alignments, and dim3. Compiles as C11 and C++. */
#ifndef __VECTOR_TYPES_H__
#define __VECTOR_TYPES_H__

#include "host_defines.h"

/* One type of 1 to 4 numbers: WHERRY_VECTORS(name, type of a number, alignments of 2 and 4). */
#define WHERRY_VECTORS(name, number, two, four)   \
  struct name##1 {                                \
    number x;                                     \
  };                                              \
  struct __attribute__((aligned(two))) name##2 {  \
    number x, y;                                  \
  };                                              \
  struct name##3 {                                \
    number x, y, z;                               \
  };                                              \
  struct __attribute__((aligned(four))) name##4 { \
    number x, y, z, w;                            \
  };                                              \
  typedef struct name##1 name##1;                 \
  typedef struct name##2 name##2;                 \
  typedef struct name##3 name##3;                 \
  typedef struct name##4 name##4;

WHERRY_VECTORS(char, signed char, 2, 4)
WHERRY_VECTORS(uchar, unsigned char, 2, 4)
WHERRY_VECTORS(short, short, 4, 8)
WHERRY_VECTORS(ushort, unsigned short, 4, 8)
WHERRY_VECTORS(int, int, 8, 16)
WHERRY_VECTORS(uint, unsigned int, 8, 16)
WHERRY_VECTORS(long, long int, 16, 16)
WHERRY_VECTORS(ulong, unsigned long int, 16, 16)
WHERRY_VECTORS(longlong, long long int, 16, 16)
WHERRY_VECTORS(ulonglong, unsigned long long int, 16, 16)
WHERRY_VECTORS(float, float, 8, 16)
WHERRY_VECTORS(double, double, 16, 16)
#undef WHERRY_VECTORS

/* Sizes of a grid in blocks, and of a block in threads. */
#ifndef WHERRY_CUDA_RUNTIME_KERNELS_H
struct dim3 {
  unsigned int x, y, z;
#ifdef __cplusplus
  constexpr dim3(unsigned int its_x = 1, unsigned int its_y = 1, unsigned int its_z = 1)
      : x(its_x), y(its_y), z(its_z) {}
  constexpr dim3(uint3 sizes) : x(sizes.x), y(sizes.y), z(sizes.z) {}
  constexpr operator uint3() const {
    return uint3{x, y, z};
  }
#endif
};
typedef struct dim3 dim3;
#endif

#endif
