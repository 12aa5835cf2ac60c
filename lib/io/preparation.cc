#include "io/preparation.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdint>

#include "base/page.h"

namespace wherry::io {

constinit std::atomic<const impl::SystemCallHooks*> attached_hooks = nullptr;
constinit std::atomic<bool> is_preparing = false;
[[gnu::tls_model("initial-exec")]] constinit thread_local ReadablePages readable_pages{};

namespace {

constinit std::atomic<std::uint64_t> refused = 0;

std::size_t ask(const void* start, std::size_t bytes, Access access) {
  return bytes == 0 || !may_be_managed(start)
             ? 0
             : attached_hooks.load(std::memory_order_relaxed)->prepare(start, bytes, access);
}

// Whether Linux can read the page of this address. Passes it to rt_sigprocmask as a mask: Linux
// copies the mask, unless it is a null pointer, before it refuses the invalid operation. Changes
// errno.
bool kernel_reads(std::uintptr_t address) {
  constexpr int no_such_operation = -1;
  const std::uintptr_t size = sizeof(std::uint64_t);
  const std::uintptr_t word = std::max(impl::round_down(address, size), size);
  ::syscall(SYS_rt_sigprocmask, no_such_operation, word, nullptr, size);
  return errno != EFAULT;
}

}  // namespace

void attach(const impl::SystemCallHooks* hooks, bool is_to_prepare) {
  is_preparing.store(is_to_prepare, std::memory_order_relaxed);
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
  if (is_on_readable_pages(start, bytes) || managed_bytes(start, bytes) == bytes) return true;
  const int errno_before = errno;
  bool readable = true;
  for (std::uintptr_t page = first / impl::page_size; readable && page <= last / impl::page_size;
       ++page) {
    readable = kernel_reads(page * impl::page_size);
    if (readable) readable_pages[page % readable_pages.size()] = page;
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
