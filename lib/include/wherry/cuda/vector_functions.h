/* make_int2() and the like. C++. */
#ifndef __VECTOR_FUNCTIONS_H__
#define __VECTOR_FUNCTIONS_H__

#include "vector_types.h"

#define WHERRY_MAKE(name, number)                                                          \
  static inline constexpr name##1 make_##name##1(number x) {                               \
    return name##1 {x};                                                                    \
  }                                                                                        \
  static inline constexpr name##2 make_##name##2(number x, number y) {                     \
    return name##2 {x, y};                                                                 \
  }                                                                                        \
  static inline constexpr name##3 make_##name##3(number x, number y, number z) {           \
    return name##3 {x, y, z};                                                              \
  }                                                                                        \
  static inline constexpr name##4 make_##name##4(number x, number y, number z, number w) { \
    return name##4 {x, y, z, w};                                                           \
  }

WHERRY_MAKE(char, signed char)
WHERRY_MAKE(uchar, unsigned char)
WHERRY_MAKE(short, short)
WHERRY_MAKE(ushort, unsigned short)
WHERRY_MAKE(int, int)
WHERRY_MAKE(uint, unsigned int)
WHERRY_MAKE(long, long int)
WHERRY_MAKE(ulong, unsigned long int)
WHERRY_MAKE(longlong, long long int)
WHERRY_MAKE(ulonglong, unsigned long long int)
WHERRY_MAKE(float, float)
WHERRY_MAKE(double, double)
#undef WHERRY_MAKE

#endif
