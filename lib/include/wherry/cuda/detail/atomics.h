/* Atomic functions, of all scopes: on a CPU, each is atomic for all processors. Each returns the
 * old value. Internal to the headers in wherry/cuda. C++17. */
#ifndef WHERRY_CUDA_ATOMICS_H
#define WHERRY_CUDA_ATOMICS_H

#include <string.h>

#include <type_traits>

namespace wherry::kernels {

template <typename T>
using Same = std::common_type_t<T>; /* a parameter with this type does not determine T */

/* Replaces *address by change(*address). */
template <typename T, typename Change>
T change_atomically(T* address, Change change) {
  T old;
  __atomic_load(address, &old, __ATOMIC_RELAXED);
  for (;;) {
    T now = change(old);
    if (__atomic_compare_exchange(address, &old, &now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
      return old;
  }
}

}  // namespace wherry::kernels

#define WHERRY_ATOMICS(scope)                                                                    \
  template <typename T>                                                                          \
  inline T atomicAdd##scope(T* address, wherry::kernels::Same<T> value) {                        \
    if constexpr (std::is_integral_v<T>)                                                         \
      return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);                               \
    else                                                                                         \
      return wherry::kernels::change_atomically(address, [=](T old) { return old + value; });    \
  }                                                                                              \
  template <typename T>                                                                          \
  inline T atomicSub##scope(T* address, wherry::kernels::Same<T> value) {                        \
    return __atomic_fetch_sub(address, value, __ATOMIC_RELAXED);                                 \
  }                                                                                              \
  template <typename T>                                                                          \
  inline T atomicExch##scope(T* address, wherry::kernels::Same<T> value) {                       \
    T old;                                                                                       \
    __atomic_exchange(address, &value, &old, __ATOMIC_RELAXED);                                  \
    return old;                                                                                  \
  }                                                                                              \
  template <typename T>                                                                          \
  inline T atomicMin##scope(T* address, wherry::kernels::Same<T> value) {                        \
    return wherry::kernels::change_atomically(address,                                           \
                                              [=](T old) { return value < old ? value : old; }); \
  }                                                                                              \
  template <typename T>                                                                          \
  inline T atomicMax##scope(T* address, wherry::kernels::Same<T> value) {                        \
    return wherry::kernels::change_atomically(address,                                           \
                                              [=](T old) { return old < value ? value : old; }); \
  }                                                                                              \
  inline unsigned atomicInc##scope(unsigned* address, unsigned last) {                           \
    return wherry::kernels::change_atomically(                                                   \
        address, [=](unsigned old) { return old >= last ? 0 : old + 1; });                       \
  }                                                                                              \
  inline unsigned atomicDec##scope(unsigned* address, unsigned first) {                          \
    return wherry::kernels::change_atomically(                                                   \
        address, [=](unsigned old) { return old == 0 || old > first ? first : old - 1; });       \
  }                                                                                              \
  template <typename T>                                                                          \
  inline T atomicCAS##scope(T* address, wherry::kernels::Same<T> expected,                       \
                            wherry::kernels::Same<T> value) {                                    \
    __atomic_compare_exchange(address, &expected, &value, false, __ATOMIC_RELAXED,               \
                              __ATOMIC_RELAXED);                                                 \
    return expected;                                                                             \
  }                                                                                              \
  template <typename T>                                                                          \
  inline T atomicAnd##scope(T* address, wherry::kernels::Same<T> value) {                        \
    return __atomic_fetch_and(address, value, __ATOMIC_RELAXED);                                 \
  }                                                                                              \
  template <typename T>                                                                          \
  inline T atomicOr##scope(T* address, wherry::kernels::Same<T> value) {                         \
    return __atomic_fetch_or(address, value, __ATOMIC_RELAXED);                                  \
  }                                                                                              \
  template <typename T>                                                                          \
  inline T atomicXor##scope(T* address, wherry::kernels::Same<T> value) {                        \
    return __atomic_fetch_xor(address, value, __ATOMIC_RELAXED);                                 \
  }

WHERRY_ATOMICS()
WHERRY_ATOMICS(_block)
WHERRY_ATOMICS(_system)
#undef WHERRY_ATOMICS

#endif
