#include "os/arch/cpu.h"

#include <elf.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/page.h"

namespace wherry::impl {

const unsigned elf_machine = EM_AARCH64;

// Linux adds a record with the exception's syndrome (the register ESR_EL1) to the signal's frame.
std::optional<bool> is_write(const ucontext_t& context) {
  constexpr std::uint64_t write = 1 << 6;
  constexpr std::uint64_t cache_maintenance = 1 << 8;  // reported as a write, but only reads
  constexpr unsigned class_shift = 26;
  constexpr std::uint64_t instruction_abort = 0x20;
  const auto& records = context.uc_mcontext.__reserved;
  _aarch64_ctx head;
  for (std::size_t at = 0; at + sizeof(esr_context) <= sizeof records; at += head.size) {
    std::memcpy(&head, &records[at], sizeof head);
    if (head.magic == 0 || head.size == 0) break;
    if (head.magic != ESR_MAGIC) continue;
    esr_context record;
    std::memcpy(&record, &records[at], sizeof record);
    if ((record.esr >> class_shift & 0x3f) == instruction_abort) return {};
    return (record.esr & write) != 0 && (record.esr & cache_maintenance) == 0;
  }
  return true;  // unknown, so handled as a write, which also serves reads
}

std::uintptr_t instruction_of(const ucontext_t& context) {
  return static_cast<std::uintptr_t>(context.uc_mcontext.pc);
}

void copy_raw(void* to, const void* from, std::size_t bytes) {
  std::uint64_t low;
  std::uint64_t high;
  asm volatile(
      "1: subs %[bytes], %[bytes], #16\n\t"
      "b.lo 2f\n\t"
      "ldp %[low], %[high], [%[from]], #16\n\t"
      "stp %[low], %[high], [%[to]], #16\n\t"
      "b 1b\n"
      "2: adds %[bytes], %[bytes], #16\n\t"
      "b.eq 4f\n"
      "3: ldrb %w[low], [%[from]], #1\n\t"
      "strb %w[low], [%[to]], #1\n\t"
      "subs %[bytes], %[bytes], #1\n\t"
      "b.ne 3b\n"
      "4:"
      : [to] "+r"(to), [from] "+r"(from), [bytes] "+r"(bytes), [low] "=&r"(low), [high] "=&r"(high)
      :
      : "cc", "memory");
}

// Uses an exclusive load and an exclusive store, which every CPU has. If the store faults, it fails
// after the fault was resolved, and the loop repeats both.
void write_unchanged(volatile unsigned char* byte) {
  unsigned value;
  unsigned failed;
  asm volatile(
      "1: ldaxrb %w[value], %[byte]\n\t"
      "stlxrb %w[failed], %w[value], %[byte]\n\t"
      "cbnz %w[failed], 1b"
      : [value] "=&r"(value), [failed] "=&r"(failed), [byte] "+Q"(*byte)
      :
      : "memory");
}

// Linux may be built for addresses of 39, 42, 47, 48 or 52 bits. With 52 it gives out addresses of
// 48 bits to programs that do not ask for more. The program's name lies at the upper end of its
// stack, which is at the upper end of the addresses. The library finds it at load time: getauxval()
// reads the main stack, which a device process hides before it gives the C library a copy
// (os/process/start_block.h).
const std::uintptr_t end_of_addresses =
    std::bit_ceil(static_cast<std::uintptr_t>(::getauxval(AT_EXECFN)));

std::uintptr_t address_space_end() {
  return end_of_addresses;
}

int counter_khz() {
  std::uint64_t hertz;
  asm("mrs %0, cntfrq_el0" : "=r"(hertz));
  return static_cast<int>(hertz / 1000);
}

void call_on_stack(void* top, void (*function)(void*), void* argument) {
  register void* first asm("x0") = argument;
  asm volatile(
      "mov x19, sp\n\t"
      "mov sp, %[top]\n\t"
      "blr %[function]\n\t"
      "mov sp, x19"
      : "+r"(first)
      : [top] "r"(top), [function] "r"(function)
      : "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14",
        "x15", "x16", "x17", "x18", "x19", "x30", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7",
        "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20",
        "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31", "cc",
        "memory");
}

// Thread-local variables, of any size, follow the control block.
AddressRange control_block_around(std::uintptr_t list, std::uintptr_t mapping_end) {
  constexpr std::size_t before_list = 512;  // in the control block
  return {round_down(list - before_list, page_size), mapping_end};
}

AddressRange thread_memory(AddressRange variables) {
  constexpr std::size_t reserve = 1024;
  constexpr std::size_t control_block = 4096;
  const auto thread = reinterpret_cast<std::uintptr_t>(__builtin_thread_pointer());
  return {thread - control_block, std::max(variables.end, thread) + reserve};
}

pid_t clone_process(unsigned long flags, pid_t* child_id) {
  return static_cast<pid_t>(::syscall(SYS_clone, flags, nullptr, nullptr, 0UL, child_id));
}

}  // namespace wherry::impl
