// Functions that pass memory to and from sockets.
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include "io/drain.h"
#include "io/fill.h"
#include "io/preparation.h"
#include "io/real.h"
#include "io/stands_for.h"

namespace wherry::io {
namespace {

// Whether memory is to be prepared for a call with this header, and the header is readable.
bool is_readable_message(const msghdr* header) {
  return prepares() && is_readable(header, sizeof *header) &&
         is_array(header->msg_iov, header->msg_iovlen);
}

// With MSG_ZEROCOPY Linux reads the pages after the call, too, until it reports them as sent.
bool keeps_pages(int flags) {
  return (flags & MSG_ZEROCOPY) != 0;
}

bool refers_to_managed(const msghdr& header) {
  return may_be_managed(header.msg_name) || may_be_managed(header.msg_control) ||
         may_be_managed(header.msg_iov) ||
         (is_array(header.msg_iov, header.msg_iovlen) &&
          is_any_managed(header.msg_iov, header.msg_iovlen));
}

// Whether any of the messages, or memory that one refers to, is managed and to be prepared.
bool are_managed(const mmsghdr* messages, unsigned count) {
  if (!prepares() || !is_readable(messages, count * sizeof *messages)) return false;
  return may_be_managed(messages) ||
         std::any_of(messages, messages + count,
                     [](const mmsghdr& message) { return refers_to_managed(message.msg_hdr); });
}

}  // namespace

ssize_t io_send(int, const void*, std::size_t, int) WHERRY_IO_STANDS_FOR("send");
ssize_t io_sendto(int, const void*, std::size_t, int, const void*, socklen_t)
    WHERRY_IO_STANDS_FOR("sendto");
ssize_t io_sendmsg(int, const msghdr*, int) WHERRY_IO_STANDS_FOR("sendmsg");
ssize_t io_recv(int, void*, std::size_t, int) WHERRY_IO_STANDS_FOR("recv");
ssize_t io_recvfrom(int, void*, std::size_t, int, void*, socklen_t*)
    WHERRY_IO_STANDS_FOR("recvfrom");
ssize_t io_recvmsg(int, msghdr*, int) WHERRY_IO_STANDS_FOR("recvmsg");
int io_recvmmsg(int, mmsghdr*, unsigned, int, timespec*) WHERRY_IO_STANDS_FOR("recvmmsg");
int io_sendmmsg(int, mmsghdr*, unsigned, int) WHERRY_IO_STANDS_FOR("sendmmsg");
ssize_t io_recv_chk(int, void*, std::size_t, std::size_t, int) WHERRY_IO_STANDS_FOR("__recv_chk");
ssize_t io_recvfrom_chk(int, void*, std::size_t, std::size_t, int, void*, socklen_t*)
    WHERRY_IO_STANDS_FOR("__recvfrom_chk");

ssize_t io_send(int fd, const void* buffer, std::size_t bytes, int flags) {
  const auto real = Real<"send", ssize_t(int, const void*, std::size_t, int)>::get();
  if (!prepares() || !is_managed(buffer, bytes)) return real(fd, buffer, bytes, flags);
  if (keeps_pages(flags))
    return call_prepared([&] { return prepare(buffer, bytes, Access::read); },
                         [&] { return real(fd, buffer, bytes, flags); });
  const iovec piece{const_cast<void*>(buffer), bytes};
  const auto call = [&](const iovec* from, std::size_t, off64_t) {
    return real(fd, from->iov_base, from->iov_len, flags);
  };
  return drain(fd, &piece, 1, at_file_position, FillCall(call));
}
ssize_t io_sendto(int fd, const void* buffer, std::size_t bytes, int flags, const void* address,
                  socklen_t address_bytes) {
  const auto real =
      Real<"sendto", ssize_t(int, const void*, std::size_t, int, const void*, socklen_t)>::get();
  const auto prepare_address = [&] { return prepare(address, address_bytes, Access::read); };
  if (!prepares() || !is_managed(buffer, bytes) || keeps_pages(flags))
    return call_prepared(
        [&] {
          const bool managed = prepare_address();
          return prepare(buffer, bytes, Access::read) || managed;
        },
        [&] { return real(fd, buffer, bytes, flags, address, address_bytes); });
  const iovec piece{const_cast<void*>(buffer), bytes};
  const auto call = [&](const iovec* from, std::size_t, off64_t) {
    return call_prepared(prepare_address, [&] {
      return real(fd, from->iov_base, from->iov_len, flags, address, address_bytes);
    });
  };
  return drain(fd, &piece, 1, at_file_position, FillCall(call));
}
ssize_t io_sendmsg(int fd, const msghdr* header, int flags) {
  const auto real = Real<"sendmsg", ssize_t(int, const msghdr*, int)>::get();
  if (!is_readable_message(header)) return real(fd, header, flags);
  if (keeps_pages(flags) || !is_any_managed(header->msg_iov, header->msg_iovlen))
    return call_prepared([&] { return prepare_message(*header, Access::read); },
                         [&] { return real(fd, header, flags); });
  msghdr own = *header;
  const auto call = [&](iovec* from, std::size_t count, off64_t) {
    own.msg_iov = from;
    own.msg_iovlen = count;
    const ssize_t result = call_prepared([&] { return prepare_message(own, Access::read); },
                                         [&] { return real(fd, &own, flags); });
    // Control data are sent with the first part only.
    if (result > 0) own.msg_controllen = 0;
    return result;
  };
  return drain(fd, header->msg_iov, header->msg_iovlen, at_file_position, FillCall(call));
}
ssize_t io_recv(int fd, void* buffer, std::size_t bytes, int flags) {
  const auto real = Real<"recv", ssize_t(int, void*, std::size_t, int)>::get();
  if (!prepares() || !is_managed(buffer, bytes)) return real(fd, buffer, bytes, flags);
  iovec piece{buffer, bytes};
  const auto call = [&](const iovec* into, std::size_t, off64_t) {
    return real(fd, into->iov_base, into->iov_len, flags);
  };
  return fill(fd, &piece, 1, at_file_position, FillCall(call));
}
ssize_t io_recvfrom(int fd, void* buffer, std::size_t bytes, int flags, void* address,
                    socklen_t* address_bytes) {
  const auto real =
      Real<"recvfrom", ssize_t(int, void*, std::size_t, int, void*, socklen_t*)>::get();
  const auto prepare_rest = [&] {
    const bool managed = prepare(address, sizeof(sockaddr_storage), Access::write);
    return prepare(address_bytes, sizeof *address_bytes, Access::write) || managed;
  };
  if (!prepares() || !is_managed(buffer, bytes))
    return call_prepared(prepare_rest,
                         [&] { return real(fd, buffer, bytes, flags, address, address_bytes); });
  iovec piece{buffer, bytes};
  const auto call = [&](const iovec* into, std::size_t, off64_t) {
    prepare_rest();
    return real(fd, into->iov_base, into->iov_len, flags, address, address_bytes);
  };
  return fill(fd, &piece, 1, at_file_position, FillCall(call));
}
ssize_t io_recvmsg(int fd, msghdr* header, int flags) {
  const auto real = Real<"recvmsg", ssize_t(int, msghdr*, int)>::get();
  if (!is_readable_message(header)) return real(fd, header, flags);
  const auto prepare_all = [&] { return prepare_message(*header, Access::write); };
  if (!is_any_managed(header->msg_iov, header->msg_iovlen))
    return call_prepared(prepare_all, [&] { return real(fd, header, flags); });
  const auto call = [&](iovec* into, std::size_t count, off64_t) {
    prepare_all();
    if (into == header->msg_iov) return real(fd, header, flags);
    msghdr own = *header;
    own.msg_iov = into;
    own.msg_iovlen = count;
    const ssize_t result = real(fd, &own, flags);
    if (result >= 0) {
      header->msg_namelen = own.msg_namelen;
      header->msg_controllen = own.msg_controllen;
      header->msg_flags = own.msg_flags;
    }
    return result;
  };
  return fill(fd, header->msg_iov, header->msg_iovlen, at_file_position, FillCall(call));
}
// Several messages are received by one call each: messages that Linux has received before it finds
// that memory is absent would be lost.
int io_recvmmsg(int fd, mmsghdr* messages, unsigned count, int flags, timespec* timeout) {
  const auto real = Real<"recvmmsg", int(int, mmsghdr*, unsigned, int, timespec*)>::get();
  if (!are_managed(messages, count)) return real(fd, messages, count, flags, timeout);
  // With MSG_WAITFORONE, only the first message is waited for. Linux checks the time limit between
  // messages; with a time limit, too, only the first is waited for.
  const bool waits_for_one = (flags & MSG_WAITFORONE) != 0 || timeout != nullptr;
  const int errno_before = errno;
  unsigned done = 0;
  for (; done < count; ++done) {
    const int more = done != 0 && waits_for_one ? MSG_DONTWAIT : 0;
    const ssize_t result =
        io_recvmsg(fd, &messages[done].msg_hdr, (flags & ~MSG_WAITFORONE) | more);
    if (result < 0) break;
    messages[done].msg_len = static_cast<unsigned>(result);
  }
  if (done == 0 && count != 0) return -1;
  errno = errno_before;
  return static_cast<int>(done);
}
int io_sendmmsg(int fd, mmsghdr* messages, unsigned count, int flags) {
  const auto real = Real<"sendmmsg", int(int, mmsghdr*, unsigned, int)>::get();
  if (!are_managed(messages, count)) return real(fd, messages, count, flags);
  const int errno_before = errno;
  unsigned done = 0;
  for (; done < count; ++done) {
    const ssize_t result = io_sendmsg(fd, &messages[done].msg_hdr, flags);
    if (result < 0) break;
    messages[done].msg_len = static_cast<unsigned>(result);
  }
  if (done == 0 && count != 0) return -1;
  errno = errno_before;
  return static_cast<int>(done);
}
ssize_t io_recv_chk(int fd, void* buffer, std::size_t bytes, std::size_t size, int flags) {
  if (bytes > size)
    return Real<"__recv_chk", ssize_t(int, void*, std::size_t, std::size_t, int)>::get()(
        fd, buffer, bytes, size, flags);
  return io_recv(fd, buffer, bytes, flags);
}
ssize_t io_recvfrom_chk(int fd, void* buffer, std::size_t bytes, std::size_t size, int flags,
                        void* address, socklen_t* address_bytes) {
  if (bytes > size)
    return Real<"__recvfrom_chk", ssize_t(int, void*, std::size_t, std::size_t, int, void*,
                                          socklen_t*)>::get()(fd, buffer, bytes, size, flags,
                                                              address, address_bytes);
  return io_recvfrom(fd, buffer, bytes, flags, address, address_bytes);
}

}  // namespace wherry::io
