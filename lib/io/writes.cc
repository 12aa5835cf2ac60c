// Wrappers of functions that write bytes from memory to a file or a pipe, and of process_vm_readv,
// which can be repeated like a write: called again, it gets the bytes again. Where Linux does not
// serve faults inside system calls, the memory is prepared.
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstddef>

#include "io/drain.h"
#include "io/preparation.h"
#include "io/real.h"
#include "io/stands_for.h"

namespace wherry::io {
namespace {

// `call` is what drain() gets.
template <typename Call>
[[gnu::noinline]] ssize_t write_managed(int fd, const void* buffer, std::size_t bytes,
                                        off64_t offset, const Call& call) {
  const iovec piece{const_cast<void*>(buffer), bytes};
  return drain(fd, &piece, 1, offset, FillCall(call));
}

bool is_to_be_drained(const void* buffer, std::size_t bytes) {
  return prepares() && may_be_managed(buffer) && is_managed(buffer, bytes);
}

template <Name name>
ssize_t write_at(int fd, const void* buffer, std::size_t bytes, off_t offset) {
  const auto real = Real<name, ssize_t(int, const void*, std::size_t, off_t)>::get();
  // Linux refuses a negative offset, so the real function gets it.
  if (offset < 0 || !is_to_be_drained(buffer, bytes)) return real(fd, buffer, bytes, offset);
  return write_managed(fd, buffer, bytes, offset,
                       [&](const iovec* pieces, std::size_t, off64_t at) {
                         return real(fd, pieces->iov_base, pieces->iov_len, at);
                       });
}

// Whether an array needs drain(). An array that is itself in managed memory does, too.
bool is_to_be_drained(const iovec* pieces, std::size_t count) {
  return prepares() && is_array(pieces, count) &&
         (may_be_managed(pieces) || is_any_managed(pieces, count));
}

// `flags` is the last argument of the newer functions, which write at the file's position if the
// offset is -1.
template <Name name, typename... Flags>
ssize_t write_pieces_at(int fd, const iovec* pieces, int count, off64_t offset, Flags... flags) {
  const auto real = Real<name, ssize_t(int, const iovec*, int, off64_t, Flags...)>::get();
  const bool is_refused = offset < 0 && (sizeof...(flags) == 0 || offset != at_file_position);
  if (is_refused || !is_to_be_drained(pieces, static_cast<std::size_t>(count)))
    return real(fd, pieces, count, offset, flags...);
  const auto call = [&](const iovec* from, std::size_t number, off64_t at) {
    return real(fd, from, static_cast<int>(number), at, flags...);
  };
  return drain(fd, pieces, static_cast<std::size_t>(count), offset, FillCall(call));
}

}  // namespace

ssize_t io_write(int, const void*, std::size_t) WHERRY_IO_STANDS_FOR("write");
ssize_t io_pwrite(int, const void*, std::size_t, off_t) WHERRY_IO_STANDS_FOR("pwrite");
ssize_t io_pwrite64(int, const void*, std::size_t, off_t) WHERRY_IO_STANDS_FOR("pwrite64");
ssize_t io_writev(int, const iovec*, int) WHERRY_IO_STANDS_FOR("writev");
ssize_t io_pwritev(int, const iovec*, int, off_t) WHERRY_IO_STANDS_FOR("pwritev");
ssize_t io_pwritev64(int, const iovec*, int, off_t) WHERRY_IO_STANDS_FOR("pwritev64");
ssize_t io_pwritev2(int, const iovec*, int, off_t, int) WHERRY_IO_STANDS_FOR("pwritev2");
ssize_t io_pwritev64v2(int, const iovec*, int, off_t, int) WHERRY_IO_STANDS_FOR("pwritev64v2");
ssize_t io_vmsplice(int, const iovec*, std::size_t, unsigned) WHERRY_IO_STANDS_FOR("vmsplice");
ssize_t io_process_vm_readv(pid_t, const iovec*, unsigned long, const iovec*, unsigned long,
                            unsigned long) WHERRY_IO_STANDS_FOR("process_vm_readv");

ssize_t io_write(int fd, const void* buffer, std::size_t bytes) {
  const auto real = Real<"write", ssize_t(int, const void*, std::size_t)>::get();
  if (!is_to_be_drained(buffer, bytes)) return real(fd, buffer, bytes);
  return write_managed(
      fd, buffer, bytes, at_file_position, [&](const iovec* pieces, std::size_t, off64_t at) {
        if (at == at_file_position) return real(fd, pieces->iov_base, pieces->iov_len);
        return Real<"pwrite64", ssize_t(int, const void*, std::size_t, off64_t)>::get()(
            fd, pieces->iov_base, pieces->iov_len, at);
      });
}
ssize_t io_pwrite(int fd, const void* buffer, std::size_t bytes, off_t offset) {
  return write_at<"pwrite">(fd, buffer, bytes, offset);
}
ssize_t io_pwrite64(int fd, const void* buffer, std::size_t bytes, off_t offset) {
  return write_at<"pwrite64">(fd, buffer, bytes, offset);
}
ssize_t io_writev(int fd, const iovec* pieces, int count) {
  const auto real = Real<"writev", ssize_t(int, const iovec*, int)>::get();
  const auto number = static_cast<std::size_t>(count);
  if (!is_to_be_drained(pieces, number)) return real(fd, pieces, count);
  const auto call = [&](const iovec* from, std::size_t some, off64_t at) {
    if (at == at_file_position) return real(fd, from, static_cast<int>(some));
    return Real<"pwritev64", ssize_t(int, const iovec*, int, off64_t)>::get()(
        fd, from, static_cast<int>(some), at);
  };
  return drain(fd, pieces, number, at_file_position, FillCall(call));
}
ssize_t io_pwritev(int fd, const iovec* pieces, int count, off_t offset) {
  return write_pieces_at<"pwritev">(fd, pieces, count, offset);
}
ssize_t io_pwritev64(int fd, const iovec* pieces, int count, off_t offset) {
  return write_pieces_at<"pwritev64">(fd, pieces, count, offset);
}
ssize_t io_pwritev2(int fd, const iovec* pieces, int count, off_t offset, int flags) {
  return write_pieces_at<"pwritev2">(fd, pieces, count, offset, flags);
}
ssize_t io_pwritev64v2(int fd, const iovec* pieces, int count, off_t offset, int flags) {
  return write_pieces_at<"pwritev64v2">(fd, pieces, count, offset, flags);
}
ssize_t io_vmsplice(int fd, const iovec* pieces, std::size_t count, unsigned flags) {
  const auto real = Real<"vmsplice", ssize_t(int, const iovec*, std::size_t, unsigned)>::get();
  const auto call = [&] { return real(fd, pieces, count, flags); };
  if (!prepares() || !is_array(pieces, count)) return call();
  return call_prepared([&] { return prepare_pieces(pieces, count, Access::write); }, call);
}
ssize_t io_process_vm_readv(pid_t process, const iovec* to, unsigned long to_count,
                            const iovec* from, unsigned long from_count, unsigned long flags) {
  const auto real =
      Real<"process_vm_readv", ssize_t(pid_t, const iovec*, unsigned long, const iovec*,
                                       unsigned long, unsigned long)>::get();
  const auto call = [&] { return real(process, to, to_count, from, from_count, flags); };
  if (!prepares() || !is_array(to, to_count) || !is_array(from, from_count)) return call();
  const auto prepare_all = [&] {
    const bool managed = prepare(from, from_count * sizeof *from, Access::read);
    return prepare_pieces(to, to_count, Access::write) || managed;
  };
  // The process may read its own memory; then both sides can be managed.
  if (process == ::getpid() && is_any_managed(from, from_count))
    return call_prepared(
        [&] {
          const bool managed = prepare_all();
          return prepare_pieces(from, from_count, Access::read) || managed;
        },
        call);
  // The other process's memory cannot be prepared, so EFAULT may be final.
  constexpr int attempts = 3;
  return call_prepared(prepare_all, call, attempts);
}

}  // namespace wherry::io
