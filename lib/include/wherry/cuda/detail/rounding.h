/* Arithmetic and conversions that round in a direction: _rd down, _ru up, _rz to zero. Internal to
 * the headers in wherry/cuda. C++17. */
#ifndef WHERRY_CUDA_ROUNDING_H
#define WHERRY_CUDA_ROUNDING_H

#include "cpu.h"

namespace wherry::kernels {

/* The operation's result, rounded by the processor. */
template <Rounding rounding, typename Operation, typename... T>
auto rounded(const Operation& operation, T... values) {
  const ControlWord before = ::wherry::kernels::control_word();
  ::wherry::kernels::set_control_word((before & ~ControlWord{round_to_zero}) | rounding);
  (::wherry::kernels::pin(values), ...);
  auto result = operation(values...);
  ::wherry::kernels::pin(result);
  ::wherry::kernels::set_control_word(before);
  return result;
}

}  // namespace wherry::kernels

#define WHERRY_IN_DIRECTION(suffix, rounding, prefix, infix, f, T)                                 \
  inline T __##prefix##add_##suffix(T a, T b) {                                                    \
    return ::wherry::kernels::rounded<::wherry::kernels::rounding>([](T x, T y) { return x + y; }, \
                                                                   a, b);                          \
  }                                                                                                \
  inline T __##prefix##sub_##suffix(T a, T b) {                                                    \
    return ::wherry::kernels::rounded<::wherry::kernels::rounding>([](T x, T y) { return x - y; }, \
                                                                   a, b);                          \
  }                                                                                                \
  inline T __##prefix##mul_##suffix(T a, T b) {                                                    \
    return ::wherry::kernels::rounded<::wherry::kernels::rounding>([](T x, T y) { return x * y; }, \
                                                                   a, b);                          \
  }                                                                                                \
  inline T __##prefix##div_##suffix(T a, T b) {                                                    \
    return ::wherry::kernels::rounded<::wherry::kernels::rounding>([](T x, T y) { return x / y; }, \
                                                                   a, b);                          \
  }                                                                                                \
  inline T __##prefix##rcp_##suffix(T a) {                                                         \
    return ::wherry::kernels::rounded<::wherry::kernels::rounding>([](T x) { return 1 / x; }, a);  \
  }                                                                                                \
  inline T __##prefix##sqrt_##suffix(T a) {                                                        \
    return ::wherry::kernels::rounded<::wherry::kernels::rounding>(                                \
        [](T x) { return __builtin_sqrt##f(x); }, a);                                              \
  }                                                                                                \
  inline T __##infix##_##suffix(T a, T b, T c) {                                                   \
    return ::wherry::kernels::rounded<::wherry::kernels::rounding>(                                \
        [](T x, T y, T z) { return __builtin_fma##f(x, y, z); }, a, b, c);                         \
  }
#define WHERRY_CONVERSION(suffix, rounding, source, from, target, to) \
  inline to __##source##2##target##_##suffix(from value) {            \
    return ::wherry::kernels::rounded<::wherry::kernels::rounding>(   \
        [](from x) { return static_cast<to>(x); }, value);            \
  }
#define WHERRY_DIRECTION(suffix, rounding)                                   \
  WHERRY_IN_DIRECTION(suffix, rounding, f, fmaf, f, float)                   \
  WHERRY_IN_DIRECTION(suffix, rounding, d, fma, , double)                    \
  WHERRY_CONVERSION(suffix, rounding, double, double, float, float)          \
  WHERRY_CONVERSION(suffix, rounding, int, int, float, float)                \
  WHERRY_CONVERSION(suffix, rounding, uint, unsigned, float, float)          \
  WHERRY_CONVERSION(suffix, rounding, ll, long long, float, float)           \
  WHERRY_CONVERSION(suffix, rounding, ull, unsigned long long, float, float) \
  WHERRY_CONVERSION(suffix, rounding, ll, long long, double, double)         \
  WHERRY_CONVERSION(suffix, rounding, ull, unsigned long long, double, double)
WHERRY_DIRECTION(rd, round_down)
WHERRY_DIRECTION(ru, round_up)
WHERRY_DIRECTION(rz, round_to_zero)
#undef WHERRY_DIRECTION
#undef WHERRY_CONVERSION
#undef WHERRY_IN_DIRECTION

#endif
