#include "io/preparation.h"

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdint>
#include <span>

#include "base/page.h"

namespace wherry::io {

constinit std::atomic<const impl::SystemCallHooks*> attached_hooks = nullptr;
constinit std::atomic<bool> is_preparing = false;
[[gnu::tls_model("initial-exec")]] constinit thread_local std::uint64_t readable_stack = 0;
constinit std::atomic<std::uintptr_t> readable_heap = UINTPTR_MAX;

namespace {

// The page from which learn_stack() has searched in vain.
[[gnu::tls_model("initial-exec")]] constinit thread_local std::uint64_t searched_in_vain = 0;

// Longer stretches are not searched: a search takes up to 100 ns for each page.
constexpr std::uintptr_t stack_search_bytes = std::uintptr_t{1} << 20;

constinit std::atomic<std::uint64_t> refused = 0;

std::size_t ask(const void* start, std::size_t bytes, Access access) {
  return bytes == 0 || !may_be_managed(start)
             ? 0
             : attached_hooks.load(std::memory_order_relaxed)->prepare(start, bytes, access);
}

// Whether the kernel can read the page of this address: rt_sigprocmask copies this argument before
// it checks the others, but does not look at a null pointer. Changes errno.
bool kernel_reads(std::uintptr_t address) {
  constexpr int no_such_operation = -1;
  const std::uintptr_t size = sizeof(std::uint64_t);
  const std::uintptr_t word = std::max(impl::round_down(address, size), size);
  ::syscall(SYS_rt_sigprocmask, no_such_operation, word, nullptr, size);
  return errno != EFAULT;
}

// The end of the calling thread's own stack. The C library keeps a thread's own data there; behind
// the main stack are the program's arguments.
std::uintptr_t end_of_own_stack() {
  const bool is_main = ::gettid() == ::getpid();
  return is_main ? ::getauxval(AT_EXECFN)
                 : reinterpret_cast<std::uintptr_t>(__builtin_thread_pointer());
}

// After an array was found readable: if it is on the calling thread's own stack, later arrays there
// need no system call. A thread that runs on another stack (a fiber, a signal's) finds a page
// between that one and its own stack's end that cannot be read: the guard page of its own stack.
void learn_stack(std::uintptr_t array) {
  const auto frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  if (array - frame > stack_search_bytes) return;  // elsewhere, also below the frame
  const std::uintptr_t end = end_of_own_stack();
  if (array >= end || end - frame > stack_search_bytes) return;
  const std::uint64_t first = frame / impl::page_size;
  const std::uint64_t behind = end / impl::page_size + 1;
  if (first == searched_in_vain) return;
  const std::uint64_t known = readable_stack;
  const bool extends = first < known >> 16 && (known >> 16) + (known & 0xffff) == behind;
  const std::uint64_t unknown_end = extends ? known >> 16 : behind;
  std::uint64_t page = first;
  while (page < unknown_end && kernel_reads(page * impl::page_size)) ++page;
  if (page == unknown_end)
    readable_stack = first << 16 | (behind - first);
  else
    searched_in_vain = first;
}

// Where the program's own code and data end; behind the address space before attach().
constinit std::atomic<std::uintptr_t> program_end = UINTPTR_MAX;

std::uintptr_t find_program_end() {
  const auto* const headers = reinterpret_cast<const ElfW(Phdr)*>(::getauxval(AT_PHDR));
  const std::size_t count = ::getauxval(AT_PHNUM);
  std::uintptr_t moved_by = 0;
  std::uintptr_t end = 0;
  for (const ElfW(Phdr) & header : std::span(headers, headers == nullptr ? 0 : count)) {
    if (header.p_type == PT_PHDR)
      moved_by = reinterpret_cast<std::uintptr_t>(headers) - header.p_vaddr;
    if (header.p_type == PT_LOAD)
      end = std::max<std::uintptr_t>(end, header.p_vaddr + header.p_memsz);
  }
  return moved_by + end;
}

// After an array was found readable: if it is on the program's heap, later arrays behind it need no
// system call. Between the program's data and its heap is nothing, and the heap has no holes: who
// unmaps or protects a part of it breaks malloc.
void learn_heap(std::uintptr_t array) {
  if (array >= reinterpret_cast<std::uintptr_t>(__curbrk) ||
      array < program_end.load(std::memory_order_relaxed))
    return;
  const std::uintptr_t page = impl::round_down(array, impl::page_size);
  std::uintptr_t known = readable_heap.load(std::memory_order_relaxed);
  while (page < known && !readable_heap.compare_exchange_weak(known, page)) {
  }
}

}  // namespace

void attach(const impl::SystemCallHooks* hooks, bool is_to_prepare) {
  is_preparing.store(is_to_prepare, std::memory_order_relaxed);
  program_end.store(find_program_end(), std::memory_order_relaxed);
  attached_hooks.store(hooks, std::memory_order_release);
}

std::size_t managed_bytes(const void* start, std::size_t bytes) {
  return ask(start, bytes, Access::look);
}

bool is_managed(const void* start, std::size_t bytes) {
  return bytes != 0 && managed_bytes(start, 1) != 0;
}

bool is_readable(const void* start, std::size_t bytes) {
  if (bytes == 0) return true;
  const auto first = reinterpret_cast<std::uintptr_t>(start);
  const std::uintptr_t last = first + bytes - 1;
  if (last < first) return false;
  if (is_on_readable_stack(start, bytes) || is_on_readable_heap(start, bytes) ||
      managed_bytes(start, bytes) == bytes)
    return true;
  const int errno_before = errno;
  bool readable = true;
  for (std::uintptr_t place = first; readable && place <= last;
       place = impl::round_down(place, impl::page_size) + impl::page_size)
    readable = kernel_reads(place);
  if (readable) {
    learn_stack(first);
    learn_heap(first);
  }
  errno = errno_before;
  return readable;
}

bool is_array(const iovec* pieces, std::size_t count) {
  return count <= IOV_MAX && is_readable(pieces, count * sizeof *pieces);
}

bool prepare(const void* start, std::size_t bytes, Access access) {
  return ask(start, bytes, access) != 0;
}

bool prepare_pieces(const iovec* pieces, std::size_t count, Access access) {
  bool managed = prepare(pieces, count * sizeof *pieces, Access::read);
  for (std::size_t i = 0; i < count; ++i)
    managed |= prepare(pieces[i].iov_base, pieces[i].iov_len, access);
  return managed;
}

void note_refused() {
  refused.fetch_add(1, std::memory_order_relaxed);
}

std::uint64_t refused_calls() {
  return refused.load(std::memory_order_relaxed);
}

bool prepare_message(const msghdr& header, Access access) {
  bool managed = prepare(&header, sizeof header, access);
  managed |= prepare(header.msg_name, header.msg_namelen, access);
  managed |= prepare(header.msg_control, header.msg_controllen, access);
  managed |= prepare_pieces(header.msg_iov, header.msg_iovlen, access);
  return managed;
}

}  // namespace wherry::io
