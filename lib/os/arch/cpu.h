// What differs between the architectures of CPUs: registers, instructions, the order of a system
// call's arguments, the layout of a thread's stack. x86_64/ and aarch64/ define these functions,
// and process/sibling_fork.h's. No other file of the library names a register or an instruction,
// except the headers of CUDA kernels, which have wherry/cuda/detail/cpu.h.
#pragma once

#include <sys/types.h>
#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "os/memory/address_map.h"

namespace wherry::impl {

// The number of this architecture in the header of an ELF file.
extern const unsigned elf_machine;

// ---- Signals ----

// Returns whether the access that raised SIGSEGV or SIGBUS was a write; nullopt for an instruction
// fetch, which no data page can serve.
std::optional<bool> is_write(const ucontext_t& context);
// Returns the address of the interrupted instruction.
std::uintptr_t instruction_of(const ucontext_t& context);

// ---- Memory ----

// Copies bytes of the program's memory, including the gaps between its objects. Does not call
// memcpy(), because sanitizers intercept it and report accesses to such gaps.
void copy_raw(void* to, const void* from, std::size_t bytes);

// Writes to the byte without changing it, even if other threads write to it at the same time.
// std::atomic cannot be used: compilers know that or-ing 0 changes nothing, and turn it into a
// read.
void write_unchanged(volatile unsigned char* byte);

// The end of the addresses that Linux gives to a process that does not ask for higher ones.
std::uintptr_t address_space_end();

// ---- Time ----

// The rate of the counter that clock64() reads in CUDA kernels, in kHz. Returns 0 if it is about
// the CPU's frequency.
int counter_khz();

// ---- Threads and processes ----

// Calls function(argument) on the stack that ends at `top`. Writes nothing to the calling thread's
// own stack.
void call_on_stack(void* top, void (*function)(void*), void* argument);

// Returns the whole pages of a thread's control block and what follows it at the end of the
// thread's stack. `list` is the head of the thread's robust list, which is in the control block.
// `mapping_end` is the end of the mapping that contains the stack; the mapping may extend further
// than the stack, because neighbouring mappings merge.
AddressRange control_block_around(std::uintptr_t list, std::uintptr_t mapping_end);

// Returns the calling thread's control block, its thread-local variables, and the loader's reserve
// for those of modules that are loaded later. `variables` is the range of all modules' variables.
AddressRange thread_memory(AddressRange variables);

// The system call clone(), without a new stack. If the flags request it, Linux writes the new
// process's id to `child_id`. Returns -1 and sets errno on failure.
pid_t clone_process(unsigned long flags, pid_t* child_id);

}  // namespace wherry::impl
