/* Arithmetic and conversions that round in a direction: _rd down, _ru up, _rz to zero. Internal to
 * the headers in wherry/cuda. C++17. */
#ifndef WHERRY_CUDA_ROUNDING_H
#define WHERRY_CUDA_ROUNDING_H

namespace wherry::kernels {

/* As the bits of the processor's control word for vectors. */
enum Rounding : unsigned {
  round_down = 0x2000,
  round_up = 0x4000,
  round_to_zero = 0x6000,
};

/* The compiler neither knows the value nor moves what depends on it to the other side. */
inline void pin(float& value) {
  __asm__ volatile("" : "+x"(value));
}
inline void pin(double& value) {
  __asm__ volatile("" : "+x"(value));
}
template <typename Integer>
void pin(Integer& value) {
  __asm__ volatile("" : "+r"(value));
}

/* The operation's result, rounded by the processor. */
template <Rounding rounding, typename Operation, typename... T>
auto rounded(const Operation& operation, T... values) {
  unsigned before = 0;
  __asm__ volatile("stmxcsr %0" : "=m"(before));
  const unsigned during = (before & ~static_cast<unsigned>(round_to_zero)) | rounding;
  __asm__ volatile("ldmxcsr %0" : : "m"(during));
  (::wherry::kernels::pin(values), ...);
  auto result = operation(values...);
  ::wherry::kernels::pin(result);
  __asm__ volatile("ldmxcsr %0" : : "m"(before));
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
