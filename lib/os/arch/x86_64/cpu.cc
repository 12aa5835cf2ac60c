#include "os/arch/cpu.h"

#include <elf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "base/page.h"

namespace wherry::impl {

const unsigned elf_machine = EM_X86_64;

std::optional<bool> is_write(const ucontext_t& context) {
  constexpr greg_t write = 1 << 1;
  constexpr greg_t instruction_fetch = 1 << 4;
  const greg_t error = context.uc_mcontext.gregs[REG_ERR];
  if ((error & instruction_fetch) != 0) return {};
  return (error & write) != 0;
}

std::uintptr_t instruction_of(const ucontext_t& context) {
  return static_cast<std::uintptr_t>(context.uc_mcontext.gregs[REG_RIP]);
}

void copy_raw(void* to, const void* from, std::size_t bytes) {
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

void write_unchanged(volatile unsigned char* byte) {
  asm volatile("lock orb $0, %0" : "+m"(*byte) : : "memory", "cc");
}

std::uintptr_t address_space_end() {
  return 0x7fff'ffff'f000;
}

int counter_khz() {
  return 0;
}

void call_on_stack(void* top, void (*function)(void*), void* argument) {
  asm volatile(
      "movq %%rsp, %%r12\n\t"
      "movq %[top], %%rsp\n\t"
      "callq *%[function]\n\t"
      "movq %%r12, %%rsp\n\t"
      : "+D"(argument)
      : [top] "r"(top), [function] "r"(function)
      : "rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "r12", "xmm0", "xmm1", "xmm2", "xmm3",
        "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",
        "xmm15", "cc", "memory");
}

// The control block is smaller than a page, and thread-local variables precede it.
AddressRange control_block_around(std::uintptr_t list, std::uintptr_t mapping_end) {
  // In glibc 2.36 the control block ends this many bytes behind the list. In any glibc it ends with
  // its page, unless the program has made the stack itself. The mapping may extend further: Linux
  // before 6.7 merges it with a neighbour.
  constexpr std::size_t behind_list = 1632;
  const std::uintptr_t page = round_down(list, page_size);
  return {page, std::min(round_up(list + behind_list, page_size), mapping_end)};
}

AddressRange thread_memory(AddressRange variables) {
  constexpr std::size_t reserve = 1024;
  constexpr std::size_t control_block = 4096;
  const auto thread = reinterpret_cast<std::uintptr_t>(__builtin_thread_pointer());
  return {std::min(variables.start, thread) - reserve, thread + control_block};
}

pid_t clone_process(unsigned long flags, pid_t* child_id) {
  return static_cast<pid_t>(::syscall(SYS_clone, flags, nullptr, nullptr, child_id, 0UL));
}

}  // namespace wherry::impl
