// process_vm_writev() to the program's own managed memory goes through private memory
// (own_pieces.h): Linux holds the destination's pages during the call, and what it writes to a page
// after the page has moved is lost.
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "io/fill.h"
#include "io/own_pieces.h"
#include "io/preparation.h"
#include "io/real.h"
#include "io/stands_for.h"

namespace wherry::io {
namespace {

using Function = ssize_t(pid_t, const iovec*, unsigned long, const iovec*, unsigned long,
                         unsigned long);

bool is_this_process(pid_t process) {
  return process == ::getpid() || process == ::gettid();
}

ssize_t write_parts(Function* real, pid_t process, const iovec* from, std::size_t from_count,
                    const iovec* to, std::size_t to_count, unsigned long flags, std::size_t all) {
  OwnPieces own(to_count, std::min(all, part_bytes), from_count);
  if (!own.exist()) {
    errno = ENOMEM;
    return -1;
  }
  const int errno_before = errno;
  std::size_t done = 0;
  while (done < all) {
    const std::size_t asked = own.take(to, to_count, done, std::min(all - done, part_bytes));
    const std::size_t sources = cut(from, from_count, done, asked, own.further());
    const ssize_t result = call_prepared(
        [&] { return prepare_pieces(own.further(), sources, Access::read); },
        [&] { return real(process, own.further(), sources, own.pieces(), own.count(), flags); });
    if (result < 0 && done == 0) return result;
    if (result <= 0) break;
    own.deliver(result);
    done += static_cast<std::size_t>(result);
    if (static_cast<std::size_t>(result) < asked) break;
  }
  errno = errno_before;
  return static_cast<ssize_t>(done);
}

}  // namespace

ssize_t io_process_vm_writev(pid_t, const iovec*, unsigned long, const iovec*, unsigned long,
                             unsigned long) WHERRY_IO_STANDS_FOR("process_vm_writev");

ssize_t io_process_vm_writev(pid_t process, const iovec* from, unsigned long from_count,
                             const iovec* to, unsigned long to_count, unsigned long flags) {
  const auto real = Real<"process_vm_writev", Function>::get();
  const auto as_given = [&] { return real(process, from, from_count, to, to_count, flags); };
  if (attached_hooks.load(std::memory_order_relaxed) == nullptr || !is_this_process(process) ||
      !is_array(to, to_count) || !is_array(from, from_count) || !is_any_managed(to, to_count))
    return as_given();
  const auto given = sum_of(from, from_count);
  const auto room = sum_of(to, to_count);
  if (!given || !room || std::min(*given, *room) == 0) return as_given();
  return write_parts(real, process, from, from_count, to, to_count, flags, std::min(*given, *room));
}

}  // namespace wherry::io
