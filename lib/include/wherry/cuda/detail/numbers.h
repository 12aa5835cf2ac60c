/* CUDA's functions of numbers that C and C++ do not have, or not with these names and types.
 * Internal to the headers in wherry/cuda. C++17. */
#ifndef WHERRY_CUDA_NUMBERS_H
#define WHERRY_CUDA_NUMBERS_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cmath>
#include <cstdlib>

namespace wherry::kernels {
__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 Uint128;
}  // namespace wherry::kernels

inline constexpr int min(int a, int b) {
  return b < a ? b : a;
}
inline constexpr int max(int a, int b) {
  return a < b ? b : a;
}
inline constexpr unsigned min(unsigned a, unsigned b) {
  return b < a ? b : a;
}
inline constexpr unsigned max(unsigned a, unsigned b) {
  return a < b ? b : a;
}
inline constexpr long min(long a, long b) {
  return b < a ? b : a;
}
inline constexpr long max(long a, long b) {
  return a < b ? b : a;
}
inline constexpr unsigned long min(unsigned long a, unsigned long b) {
  return b < a ? b : a;
}
inline constexpr unsigned long max(unsigned long a, unsigned long b) {
  return a < b ? b : a;
}
inline constexpr long long min(long long a, long long b) {
  return b < a ? b : a;
}
inline constexpr long long max(long long a, long long b) {
  return a < b ? b : a;
}
inline constexpr unsigned long long min(unsigned long long a, unsigned long long b) {
  return b < a ? b : a;
}
inline constexpr unsigned long long max(unsigned long long a, unsigned long long b) {
  return a < b ? b : a;
}
/* min() and max() of a signed and an unsigned number take both as unsigned, as in CUDA. */
inline constexpr unsigned min(int a, unsigned b) {
  return min(static_cast<unsigned>(a), b);
}
inline constexpr unsigned max(int a, unsigned b) {
  return max(static_cast<unsigned>(a), b);
}
inline constexpr unsigned min(unsigned a, int b) {
  return min(a, static_cast<unsigned>(b));
}
inline constexpr unsigned max(unsigned a, int b) {
  return max(a, static_cast<unsigned>(b));
}
inline constexpr unsigned long min(long a, unsigned long b) {
  return min(static_cast<unsigned long>(a), b);
}
inline constexpr unsigned long max(long a, unsigned long b) {
  return max(static_cast<unsigned long>(a), b);
}
inline constexpr unsigned long min(unsigned long a, long b) {
  return min(a, static_cast<unsigned long>(b));
}
inline constexpr unsigned long max(unsigned long a, long b) {
  return max(a, static_cast<unsigned long>(b));
}
inline constexpr unsigned long long min(long long a, unsigned long long b) {
  return min(static_cast<unsigned long long>(a), b);
}
inline constexpr unsigned long long max(long long a, unsigned long long b) {
  return max(static_cast<unsigned long long>(a), b);
}
inline constexpr unsigned long long min(unsigned long long a, long long b) {
  return min(a, static_cast<unsigned long long>(b));
}
inline constexpr unsigned long long max(unsigned long long a, long long b) {
  return max(a, static_cast<unsigned long long>(b));
}
inline float min(float a, float b) {
  return __builtin_fminf(a, b);
}
inline float max(float a, float b) {
  return __builtin_fmaxf(a, b);
}
inline double min(double a, double b) {
  return __builtin_fmin(a, b);
}
inline double max(double a, double b) {
  return __builtin_fmax(a, b);
}
inline double min(float a, double b) {
  return __builtin_fmin(a, b);
}
inline double max(float a, double b) {
  return __builtin_fmax(a, b);
}
inline double min(double a, float b) {
  return __builtin_fmin(a, b);
}
inline double max(double a, float b) {
  return __builtin_fmax(a, b);
}

inline constexpr unsigned umin(unsigned a, unsigned b) {
  return min(a, b);
}
inline constexpr unsigned umax(unsigned a, unsigned b) {
  return max(a, b);
}
inline constexpr long long llmin(long long a, long long b) {
  return min(a, b);
}
inline constexpr long long llmax(long long a, long long b) {
  return max(a, b);
}
inline constexpr unsigned long long ullmin(unsigned long long a, unsigned long long b) {
  return min(a, b);
}
inline constexpr unsigned long long ullmax(unsigned long long a, unsigned long long b) {
  return max(a, b);
}

inline float rsqrtf(float x) {
  return 1.0f / __builtin_sqrtf(x);
}
inline double rsqrt(double x) {
  return 1.0 / __builtin_sqrt(x);
}
inline float rsqrt(float x) {
  return rsqrtf(x);
}
inline float rcbrtf(float x) {
  return 1.0f / __builtin_cbrtf(x);
}
inline double rcbrt(double x) {
  return 1.0 / __builtin_cbrt(x);
}
inline float sinpif(float x) {
  return __builtin_sinf(x * 3.14159265358979f);
}
inline double sinpi(double x) {
  return __builtin_sin(x * 3.14159265358979323846);
}
inline float cospif(float x) {
  return __builtin_cosf(x * 3.14159265358979f);
}
inline double cospi(double x) {
  return __builtin_cos(x * 3.14159265358979323846);
}
inline void sincospif(float x, float* s, float* c) {
  *s = sinpif(x), *c = cospif(x);
}
inline void sincospi(double x, double* s, double* c) {
  *s = sinpi(x), *c = cospi(x);
}
inline float normcdff(float x) {
  return 0.5f * __builtin_erfcf(-x * 0.707106781186547524f);
}
inline double normcdf(double x) {
  return 0.5 * __builtin_erfc(-x * 0.70710678118654752440);
}
inline float fdividef(float a, float b) {
  return a / b;
}
inline float rhypotf(float a, float b) {
  return 1.0f / __builtin_hypotf(a, b);
}
inline double rhypot(double a, double b) {
  return 1.0 / __builtin_hypot(a, b);
}
inline float norm3df(float a, float b, float c) {
  return __builtin_sqrtf(a * a + b * b + c * c);
}
inline double norm3d(double a, double b, double c) {
  return __builtin_sqrt(a * a + b * b + c * c);
}

/* The fast versions of functions are the ordinary ones here. */
inline float __sinf(float x) {
  return __builtin_sinf(x);
}
inline float __cosf(float x) {
  return __builtin_cosf(x);
}
inline float __tanf(float x) {
  return __builtin_tanf(x);
}
inline float __expf(float x) {
  return __builtin_expf(x);
}
inline float __logf(float x) {
  return __builtin_logf(x);
}
inline float __log2f(float x) {
  return __builtin_log2f(x);
}
inline float __log10f(float x) {
  return __builtin_log10f(x);
}
inline float __exp10f(float x) {
  return __builtin_powf(10.0f, x);
}
inline float __powf(float x, float y) {
  return __builtin_powf(x, y);
}
inline void __sincosf(float x, float* s, float* c) {
  *s = __builtin_sinf(x), *c = __builtin_cosf(x);
}
inline float __fdividef(float a, float b) {
  return a / b;
}
inline float __frsqrt_rn(float x) {
  return 1.0f / __builtin_sqrtf(x);
}
inline float __saturatef(float x) {
  return x < 0 || x != x ? 0.0f : x > 1 ? 1.0f : x;
}
inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline float __fsub_rn(float a, float b) {
  return a - b;
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fdiv_rn(float a, float b) {
  return a / b;
}
inline float __frcp_rn(float a) {
  return 1.0f / a;
}
inline float __fsqrt_rn(float a) {
  return __builtin_sqrtf(a);
}
inline float __fmaf_rn(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
inline double __dadd_rn(double a, double b) {
  return a + b;
}
inline double __dsub_rn(double a, double b) {
  return a - b;
}
inline double __dmul_rn(double a, double b) {
  return a * b;
}
inline double __ddiv_rn(double a, double b) {
  return a / b;
}
inline double __drcp_rn(double a) {
  return 1.0 / a;
}
inline double __dsqrt_rn(double a) {
  return __builtin_sqrt(a);
}
inline double __fma_rn(double a, double b, double c) {
  return __builtin_fma(a, b, c);
}

/* ---- Bits ---- */

inline int __popc(unsigned x) {
  return __builtin_popcount(x);
}
inline int __popcll(unsigned long long x) {
  return __builtin_popcountll(x);
}
inline int __clz(int x) {
  return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x));
}
inline int __clzll(long long x) {
  return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x));
}
inline int __ffs(int x) {
  return __builtin_ffs(x);
}
inline int __ffsll(long long x) {
  return __builtin_ffsll(x);
}
inline unsigned __brev(unsigned x) {
  x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
  x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
  x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
  return __builtin_bswap32(x);
}
inline unsigned long long __brevll(unsigned long long x) {
  return static_cast<unsigned long long>(__brev(static_cast<unsigned>(x))) << 32 |
         __brev(static_cast<unsigned>(x >> 32));
}
/* Bytes 0 to 3 of the result are those of x (0 to 3) and y (4 to 7) that the digits of s name. */
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned s) {
  const unsigned long long both = static_cast<unsigned long long>(y) << 32 | x;
  unsigned result = 0;
  for (unsigned i = 0; i < 4; ++i)
    result |= static_cast<unsigned>(both >> 8 * (s >> 4 * i & 7) & 0xff) << 8 * i;
  return result;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>(
      ((static_cast<unsigned long long>(high) << 32 | low) << (shift & 31)) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((static_cast<unsigned long long>(high) << 32 | low) >> (shift & 31));
}
inline int __mul24(int a, int b) {
  return static_cast<int>(static_cast<unsigned>(a << 8 >> 8) * static_cast<unsigned>(b << 8 >> 8));
}
inline unsigned __umul24(unsigned a, unsigned b) {
  return (a & 0xffffff) * (b & 0xffffff);
}
inline int __mulhi(int a, int b) {
  return static_cast<int>(static_cast<long long>(a) * b >> 32);
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}
inline long long __mul64hi(long long a, long long b) {
  return static_cast<long long>(static_cast<wherry::kernels::Int128>(a) * b >> 64);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<wherry::kernels::Uint128>(a) * b >> 64);
}
inline unsigned __sad(int a, int b, unsigned c) {
  return (a > b ? static_cast<unsigned>(a) - static_cast<unsigned>(b)
                : static_cast<unsigned>(b) - static_cast<unsigned>(a)) +
         c;
}
inline unsigned __usad(unsigned a, unsigned b, unsigned c) {
  return (a > b ? a - b : b - a) + c;
}
inline int __hadd(int a, int b) {
  return static_cast<int>((static_cast<long long>(a) + b) >> 1);
}

/* ---- Conversions. _rn rounds to nearest, _rz to zero, _ru up, _rd down. ---- */

#define WHERRY_BITS(name, from, to)         \
  inline to name(from value) {              \
    to result;                              \
    memcpy(&result, &value, sizeof result); \
    return result;                          \
  }
WHERRY_BITS(__float_as_int, float, int)
WHERRY_BITS(__float_as_uint, float, unsigned)
WHERRY_BITS(__int_as_float, int, float)
WHERRY_BITS(__uint_as_float, unsigned, float)
WHERRY_BITS(__double_as_longlong, double, long long)
WHERRY_BITS(__longlong_as_double, long long, double)
#undef WHERRY_BITS
inline int __double2hiint(double x) {
  return static_cast<int>(__double_as_longlong(x) >> 32);
}
inline int __double2loint(double x) {
  return static_cast<int>(__double_as_longlong(x));
}
inline double __hiloint2double(int high, int low) {
  return __longlong_as_double(
      static_cast<long long>(static_cast<unsigned long long>(static_cast<unsigned>(high)) << 32 |
                             static_cast<unsigned>(low)));
}
#define WHERRY_ROUNDED(source, from, target, to, f) \
  inline to __##source##2##target##_rn(from x) {    \
    return static_cast<to>(__builtin_rint##f(x));   \
  }                                                 \
  inline to __##source##2##target##_rz(from x) {    \
    return static_cast<to>(x);                      \
  }                                                 \
  inline to __##source##2##target##_ru(from x) {    \
    return static_cast<to>(__builtin_ceil##f(x));   \
  }                                                 \
  inline to __##source##2##target##_rd(from x) {    \
    return static_cast<to>(__builtin_floor##f(x));  \
  }
WHERRY_ROUNDED(float, float, int, int, f)
WHERRY_ROUNDED(float, float, uint, unsigned, f)
WHERRY_ROUNDED(float, float, ll, long long, f)
WHERRY_ROUNDED(float, float, ull, unsigned long long, f)
WHERRY_ROUNDED(double, double, int, int, )
WHERRY_ROUNDED(double, double, uint, unsigned, )
WHERRY_ROUNDED(double, double, ll, long long, )
WHERRY_ROUNDED(double, double, ull, unsigned long long, )
#undef WHERRY_ROUNDED
inline float __int2float_rn(int x) {
  return static_cast<float>(x);
}
inline float __uint2float_rn(unsigned x) {
  return static_cast<float>(x);
}
inline float __ll2float_rn(long long x) {
  return static_cast<float>(x);
}
inline float __ull2float_rn(unsigned long long x) {
  return static_cast<float>(x);
}
inline double __int2double_rn(int x) {
  return x;
}
inline double __uint2double_rn(unsigned x) {
  return x;
}
inline double __ll2double_rn(long long x) {
  return static_cast<double>(x);
}
inline double __ull2double_rn(unsigned long long x) {
  return static_cast<double>(x);
}
inline float __double2float_rn(double x) {
  return static_cast<float>(x);
}

/* ---- Loads and stores with hints, which a CPU does not need ---- */

template <typename T>
T __ldg(const T* address) {
  return *address;
}
template <typename T>
T __ldcg(const T* address) {
  return *address;
}
template <typename T>
T __ldca(const T* address) {
  return *address;
}
template <typename T>
T __ldcs(const T* address) {
  return *address;
}
template <typename T>
void __stcg(T* address, T value) {
  *address = value;
}
template <typename T>
void __stcs(T* address, T value) {
  *address = value;
}

#endif
