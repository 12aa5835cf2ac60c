/* What differs between the architectures of CPUs, for the headers in wherry/cuda: the direction of
 * rounding, the counter of ticks, the instruction for waiting loops. C++17. */
#ifndef WHERRY_CUDA_CPU_H
#define WHERRY_CUDA_CPU_H

namespace wherry::kernels {

#if defined(__x86_64__)

/* Directions of rounding, as bits of MXCSR. */
enum Rounding : unsigned {
  round_down = 0x2000,
  round_up = 0x4000,
  round_to_zero = 0x6000,
};
using ControlWord = unsigned;

inline ControlWord control_word() {
  ControlWord value = 0;
  __asm__ volatile("stmxcsr %0" : "=m"(value));
  return value;
}
inline void set_control_word(ControlWord value) {
  __asm__ volatile("ldmxcsr %0" : : "m"(value));
}

/* Hides the value from the compiler, so that no computation with it is moved past this call. */
inline void pin(float& value) {
  __asm__ volatile("" : "+x"(value));
}
inline void pin(double& value) {
  __asm__ volatile("" : "+x"(value));
}

inline long long ticks() {
  return static_cast<long long>(__builtin_ia32_rdtsc());
}
inline void pause() {
  __builtin_ia32_pause();
}

#elif defined(__aarch64__)

/* Directions of rounding, as bits of FPCR. */
enum Rounding : unsigned {
  round_up = 0x400000,
  round_down = 0x800000,
  round_to_zero = 0xc00000,
};
using ControlWord = unsigned long long;

inline ControlWord control_word() {
  ControlWord value = 0;
  __asm__ volatile("mrs %0, fpcr" : "=r"(value));
  return value;
}
inline void set_control_word(ControlWord value) {
  __asm__ volatile("msr fpcr, %0" : : "r"(value));
}

inline void pin(float& value) {
  __asm__ volatile("" : "+w"(value));
}
inline void pin(double& value) {
  __asm__ volatile("" : "+w"(value));
}

inline long long ticks() {
  long long value = 0;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
  return value;
}
inline void pause() {
  __asm__ volatile("yield");
}

#else
#error "Wherry's headers for CUDA know x86-64 and arm64 only"
#endif

template <typename Integer>
void pin(Integer& value) {
  __asm__ volatile("" : "+r"(value));
}

}  // namespace wherry::kernels

#endif
