// What differs between the architectures of CPUs, for tests: instructions, registers, system calls.
#pragma once

#include <sys/user.h>
#include <ucontext.h>

#include <cstdint>

namespace wherry::test {

#if defined(__x86_64__)

// Not canonical, so no address of a program or of Linux. Signal handlers get 0 instead of it.
constexpr std::uintptr_t no_such_address = 0x8000'0000'0000'0000;

// Accesses without instrumentation. Their single instruction has the length that skip_access()
// assumes.
[[gnu::always_inline]] inline unsigned char load_byte(const void* from) {
  unsigned char value;
  asm volatile("movb (%1), %0" : "=a"(value) : "D"(from) : "memory");
  return value;
}
[[gnu::always_inline]] inline void store_byte(void* to, unsigned char value) {
  asm volatile("movb %b0, (%1)" : : "S"(value), "D"(to) : "memory");
}
inline void skip_access(ucontext_t& context) {
  auto& registers = context.uc_mcontext.gregs;
  const bool is_store = (registers[REG_ERR] & 2) != 0;
  registers[REG_RIP] += is_store ? 3 : 2;  // the store's instruction has a prefix
}

// Copies a byte by one instruction, which faults at both addresses.
inline void copy_byte(const volatile char* from, volatile char* to) {
  asm volatile("movsb" : "+S"(from), "+D"(to) : : "memory");
}

inline std::uintptr_t instruction_of(const user_regs_struct& registers) {
  return registers.rip;
}

// Without the C library.
inline long raw_system_call(long number, long a, long b, long c, long d) {
  long result;
  register long fourth asm("r10") = d;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth)
               : "rcx", "r11", "memory");
  return result;
}

inline void spin_pause() {
  __builtin_ia32_pause();
}

#elif defined(__aarch64__)

// The highest byte is 0, because Linux takes it for a tag of the pointer, not for address bits.
constexpr std::uintptr_t no_such_address = 0x0040'0000'0000'0000;

[[gnu::always_inline]] inline unsigned char load_byte(const void* from) {
  unsigned value;
  asm volatile("ldrb %w0, [%1]" : "=r"(value) : "r"(from) : "memory");
  return static_cast<unsigned char>(value);
}
[[gnu::always_inline]] inline void store_byte(void* to, unsigned char value) {
  asm volatile("strb %w0, [%1]" : : "r"(value), "r"(to) : "memory");
}
inline void skip_access(ucontext_t& context) {
  context.uc_mcontext.pc += 4;
}

// Not by one instruction: there is none.
inline void copy_byte(const volatile char* from, volatile char* to) {
  *to = *from;
}

inline std::uintptr_t instruction_of(const user_regs_struct& registers) {
  return registers.pc;
}

inline long raw_system_call(long number, long a, long b, long c, long d) {
  register long which asm("x8") = number;
  register long first asm("x0") = a;
  register long second asm("x1") = b;
  register long third asm("x2") = c;
  register long fourth asm("x3") = d;
  asm volatile("svc #0"
               : "+r"(first)
               : "r"(which), "r"(second), "r"(third), "r"(fourth)
               : "memory");
  return first;
}

inline void spin_pause() {
  asm volatile("yield");
}

#else
#error "the tests know x86-64 and arm64 only"
#endif

}  // namespace wherry::test
