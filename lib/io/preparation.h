// What the wrappers know of managed memory, through the library's hooks. Where Linux does not serve
// faults inside system calls, these functions make the memory that is passed to a call accessible
// before it, and repeat the call if a device took a page away in between. That costs one load until
// libwherry attaches itself, then a few loads. They take no locks and no heap memory: callable from
// signal handlers. Only the real call changes errno.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/page.h"
#include "memory/system_calls.h"

namespace wherry::io {

using Access = impl::SystemCallAccess;

// Null until libwherry attaches itself.
extern constinit std::atomic<const impl::SystemCallHooks*> attached_hooks;
extern constinit std::atomic<bool> is_preparing;

// Uses the hooks from now on. `is_to_prepare`: calls' memory is to be prepared.
void attach(const impl::SystemCallHooks* hooks, bool is_to_prepare);
// Whether calls' memory is to be prepared. False before libwherry has attached itself.
inline bool prepares() {
  return is_preparing.load(std::memory_order_relaxed);
}
// Whether managed memory may begin at `start`. False until libwherry attaches itself.
inline bool may_be_managed(const void* start) {
  const impl::SystemCallHooks* const hooks = attached_hooks.load(std::memory_order_acquire);
  return hooks != nullptr && hooks->may_begin_at(start);
}
// Whether the range is on the page of the calling function's frame. Most arrays are on the stack of
// the caller, so this often saves the system call with which is_readable() finds the answer.
[[gnu::always_inline]] inline bool is_on_this_page(const void* start, std::size_t bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(start);
  const std::uintptr_t last = first + bytes - 1;
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  return bytes - 1 < impl::page_size && ((here ^ first) | (here ^ last)) < impl::page_size;
}
// The numbers of pages that the calling thread has found readable, each at its number modulo the
// size; 0 means none. Each is one word, so that a signal handler may change it.
using ReadablePages = std::array<std::uintptr_t, 16>;
[[gnu::tls_model("initial-exec")]] extern constinit thread_local ReadablePages readable_pages;
// Whether all pages of the range are in readable_pages. A program that unmaps or protects a page
// and then passes an array in that page gets SIGSEGV instead of EFAULT.
[[gnu::always_inline]] inline bool is_on_readable_pages(const void* start, std::size_t bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(start);
  const std::uintptr_t last_page = (first + bytes - 1) / impl::page_size;
  std::uintptr_t page = first / impl::page_size;
  if (page == 0 || page > last_page) return false;
  while (readable_pages[page % readable_pages.size()] == page)
    if (page++ == last_page) return true;
  return false;
}
// Whether this library may read an array, or a header, that the program passed to a call. If not,
// the call goes to Linux unchanged, which rejects the pointer.
bool is_readable(const void* start, std::size_t bytes);
// Like is_readable(), for an array whose number of pieces Linux accepts.
bool is_array(const iovec* pieces, std::size_t count);

// How many bytes at `start` are managed memory, up to the first that is not.
std::size_t managed_bytes(const void* start, std::size_t bytes);
// Whether managed memory begins at `start`, or at the start of any piece of the array.
bool is_managed(const void* start, std::size_t bytes);
inline bool is_any_managed(const iovec* pieces, std::size_t count) {
  const impl::SystemCallHooks* const hooks = attached_hooks.load(std::memory_order_acquire);
  const impl::ArenaLayout* const layout =
      hooks != nullptr ? hooks->layout.load(std::memory_order_acquire) : nullptr;
  if (layout == nullptr) return false;
  return std::any_of(pieces, pieces + count, [layout](const iovec& piece) {
    return layout->may_contain(reinterpret_cast<std::uintptr_t>(piece.iov_base)) &&
           is_managed(piece.iov_base, piece.iov_len);
  });
}
// Access the managed memory in: a range; an array and all its pieces; a message's header and all
// that it refers to. `access`: whether Linux only reads the memory or may also write to it. Each
// returns whether there is any managed memory.
bool prepare(const void* start, std::size_t bytes, Access access);
bool prepare_pieces(const iovec* pieces, std::size_t count, Access access);
bool prepare_message(const msghdr& header, Access access);

// A device may take a page away between its preparation and the call. The minimum residency keeps
// it on the host for 20 us, which is enough unless the thread loses its CPU within that time.
inline constexpr int attempts_max = 1000;

// Counts a call that ends in EFAULT on managed memory.
void note_refused();
// How many such calls there were in this process.
std::uint64_t refused_calls();

// Whether a function that sets errno has failed.
template <typename Result>
bool has_failed(Result result) {
  if constexpr (std::is_pointer_v<Result>)
    return result == nullptr;
  else
    return result == -1;
}

// Returns what call() returns. If calls' memory is prepared, prepare_all() comes before, and both
// are repeated, up to `attempts` times, while call() fails with EFAULT and there is managed memory.
template <typename PrepareAll, typename Call>
auto call_prepared(const PrepareAll& prepare_all, const Call& call, int attempts = attempts_max) {
  if (!prepares()) return call();
  const int errno_before = errno;
  for (int attempt = 1;; ++attempt) {
    const bool managed = prepare_all();
    errno = errno_before;
    const auto result = call();
    if (!has_failed(result) || errno != EFAULT || !managed) return result;
    if (attempt == attempts) {
      note_refused();
      return result;
    }
  }
}

}  // namespace wherry::io
