// The functions that libwherry_io interposes on the C library's, under the same names. Each calls
// the real function and behaves like it: return value, errno, cancellation and restarts after
// signals are those of the real function.
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>

#include "io/delivery.h"
#include "io/preparation.h"
#include "io/real.h"

namespace wherry::io {
namespace {

// Makes a call that reads bytes from `buffer`.
template <typename Call>
ssize_t take(const void* buffer, std::size_t bytes, const Call& call) {
  if (!is_attached()) return call();
  return call_prepared([&] { return prepare(buffer, bytes, Access::read); }, call);
}
// Makes a call that reads from all pieces of an array.
template <typename Call>
ssize_t take(const iovec* pieces, int count, const Call& call) {
  const auto number = static_cast<std::size_t>(count);
  if (!is_attached() || !is_array(pieces, number)) return call();
  return call_prepared([&] { return prepare_pieces(pieces, number, Access::read); }, call);
}

// Makes call(pieces), which writes into the pieces of an array that the caller may read.
// prepare_rest() prepares the call's other memory and returns whether any of it is managed.
template <typename PrepareRest, typename Call>
ssize_t put(int fd, iovec* pieces, std::size_t count, const PrepareRest& prepare_rest,
            const Call& call) {
  if (const Substitute own(fd, pieces, count); own.is_needed()) {
    prepare_rest();
    const ssize_t result = call(own.pieces());
    own.deliver(result);
    return result;
  }
  return call_prepared(
      [&] {
        const bool rest = prepare_rest();
        return prepare_pieces(pieces, count, Access::write) || rest;
      },
      [&] { return call(pieces); });
}

constexpr auto no_rest = [] { return false; };

// Makes call(buffer, bytes), which writes into one buffer.
template <typename PrepareRest, typename Call>
ssize_t put(int fd, void* buffer, std::size_t bytes, const PrepareRest& prepare_rest,
            const Call& call) {
  if (!is_attached()) return call(buffer, bytes);
  iovec piece{buffer, bytes};
  return put(fd, &piece, 1, prepare_rest,
             [&](const iovec* given) { return call(given->iov_base, given->iov_len); });
}
// Makes a call that reads at an offset of a file, which delivers the same bytes if it is repeated.
template <typename Call>
ssize_t put_again(void* buffer, std::size_t bytes, const Call& call) {
  if (!is_attached()) return call();
  return call_prepared([&] { return prepare(buffer, bytes, Access::write); }, call);
}
template <typename Call>
ssize_t put_again(const iovec* pieces, int count, const Call& call) {
  const auto number = static_cast<std::size_t>(count);
  if (!is_attached() || !is_array(pieces, number)) return call();
  return call_prepared([&] { return prepare_pieces(pieces, number, Access::write); }, call);
}

template <Name name>
ssize_t read_at(int fd, void* buffer, std::size_t bytes, off_t offset) {
  const auto real = Real<name, ssize_t(int, void*, std::size_t, off_t)>::get();
  return put_again(buffer, bytes, [&] { return real(fd, buffer, bytes, offset); });
}
template <Name name>
ssize_t write_at(int fd, const void* buffer, std::size_t bytes, off_t offset) {
  const auto real = Real<name, ssize_t(int, const void*, std::size_t, off_t)>::get();
  return take(buffer, bytes, [&] { return real(fd, buffer, bytes, offset); });
}
// `further`: an offset and, in the newer functions, flags.
template <Name name, typename... Further>
ssize_t read_pieces_at(int fd, const iovec* pieces, int count, Further... further) {
  const auto real = Real<name, ssize_t(int, const iovec*, int, Further...)>::get();
  return put_again(pieces, count, [&] { return real(fd, pieces, count, further...); });
}
template <Name name, typename... Further>
ssize_t write_pieces(int fd, const iovec* pieces, int count, Further... further) {
  const auto real = Real<name, ssize_t(int, const iovec*, int, Further...)>::get();
  return take(pieces, count, [&] { return real(fd, pieces, count, further...); });
}

}  // namespace

// The functions have names of their own, because headers may redefine or check the C library's
// names.
#define WHERRY_IO_STANDS_FOR(name) __asm__(name) __attribute__((visibility("default")))

ssize_t io_read(int, void*, std::size_t) WHERRY_IO_STANDS_FOR("read");
ssize_t io_write(int, const void*, std::size_t) WHERRY_IO_STANDS_FOR("write");
ssize_t io_pread(int, void*, std::size_t, off_t) WHERRY_IO_STANDS_FOR("pread");
ssize_t io_pread64(int, void*, std::size_t, off_t) WHERRY_IO_STANDS_FOR("pread64");
ssize_t io_pwrite(int, const void*, std::size_t, off_t) WHERRY_IO_STANDS_FOR("pwrite");
ssize_t io_pwrite64(int, const void*, std::size_t, off_t) WHERRY_IO_STANDS_FOR("pwrite64");
ssize_t io_readv(int, const iovec*, int) WHERRY_IO_STANDS_FOR("readv");
ssize_t io_writev(int, const iovec*, int) WHERRY_IO_STANDS_FOR("writev");
ssize_t io_preadv(int, const iovec*, int, off_t) WHERRY_IO_STANDS_FOR("preadv");
ssize_t io_preadv64(int, const iovec*, int, off_t) WHERRY_IO_STANDS_FOR("preadv64");
ssize_t io_pwritev(int, const iovec*, int, off_t) WHERRY_IO_STANDS_FOR("pwritev");
ssize_t io_pwritev64(int, const iovec*, int, off_t) WHERRY_IO_STANDS_FOR("pwritev64");
ssize_t io_preadv2(int, const iovec*, int, off_t, int) WHERRY_IO_STANDS_FOR("preadv2");
ssize_t io_preadv64v2(int, const iovec*, int, off_t, int) WHERRY_IO_STANDS_FOR("preadv64v2");
ssize_t io_pwritev2(int, const iovec*, int, off_t, int) WHERRY_IO_STANDS_FOR("pwritev2");
ssize_t io_pwritev64v2(int, const iovec*, int, off_t, int) WHERRY_IO_STANDS_FOR("pwritev64v2");
ssize_t io_send(int, const void*, std::size_t, int) WHERRY_IO_STANDS_FOR("send");
ssize_t io_sendto(int, const void*, std::size_t, int, const void*, socklen_t)
    WHERRY_IO_STANDS_FOR("sendto");
ssize_t io_sendmsg(int, const msghdr*, int) WHERRY_IO_STANDS_FOR("sendmsg");
ssize_t io_recv(int, void*, std::size_t, int) WHERRY_IO_STANDS_FOR("recv");
ssize_t io_recvfrom(int, void*, std::size_t, int, void*, socklen_t*)
    WHERRY_IO_STANDS_FOR("recvfrom");
ssize_t io_recvmsg(int, msghdr*, int) WHERRY_IO_STANDS_FOR("recvmsg");
// A program that is compiled with _FORTIFY_SOURCE calls these where the compiler knows the size of
// the buffer.
ssize_t io_read_chk(int, void*, std::size_t, std::size_t) WHERRY_IO_STANDS_FOR("__read_chk");
ssize_t io_pread_chk(int, void*, std::size_t, off_t, std::size_t)
    WHERRY_IO_STANDS_FOR("__pread_chk");
ssize_t io_pread64_chk(int, void*, std::size_t, off_t, std::size_t)
    WHERRY_IO_STANDS_FOR("__pread64_chk");
ssize_t io_recv_chk(int, void*, std::size_t, std::size_t, int) WHERRY_IO_STANDS_FOR("__recv_chk");
ssize_t io_recvfrom_chk(int, void*, std::size_t, std::size_t, int, void*, socklen_t*)
    WHERRY_IO_STANDS_FOR("__recvfrom_chk");

ssize_t io_read(int fd, void* buffer, std::size_t bytes) {
  const auto real = Real<"read", ssize_t(int, void*, std::size_t)>::get();
  return put(fd, buffer, bytes, no_rest,
             [&](void* into, std::size_t size) { return real(fd, into, size); });
}
ssize_t io_write(int fd, const void* buffer, std::size_t bytes) {
  const auto real = Real<"write", ssize_t(int, const void*, std::size_t)>::get();
  return take(buffer, bytes, [&] { return real(fd, buffer, bytes); });
}

ssize_t io_pread(int fd, void* buffer, std::size_t bytes, off_t offset) {
  return read_at<"pread">(fd, buffer, bytes, offset);
}
ssize_t io_pread64(int fd, void* buffer, std::size_t bytes, off_t offset) {
  return read_at<"pread64">(fd, buffer, bytes, offset);
}
ssize_t io_pwrite(int fd, const void* buffer, std::size_t bytes, off_t offset) {
  return write_at<"pwrite">(fd, buffer, bytes, offset);
}
ssize_t io_pwrite64(int fd, const void* buffer, std::size_t bytes, off_t offset) {
  return write_at<"pwrite64">(fd, buffer, bytes, offset);
}

ssize_t io_readv(int fd, const iovec* pieces, int count) {
  const auto real = Real<"readv", ssize_t(int, const iovec*, int)>::get();
  const auto number = static_cast<std::size_t>(count);
  if (!is_attached() || !is_array(pieces, number)) return real(fd, pieces, count);
  return put(fd, const_cast<iovec*>(pieces), number, no_rest,
             [&](const iovec* into) { return real(fd, into, count); });
}
ssize_t io_writev(int fd, const iovec* pieces, int count) {
  return write_pieces<"writev">(fd, pieces, count);
}

ssize_t io_preadv(int fd, const iovec* pieces, int count, off_t offset) {
  return read_pieces_at<"preadv">(fd, pieces, count, offset);
}
ssize_t io_preadv64(int fd, const iovec* pieces, int count, off_t offset) {
  return read_pieces_at<"preadv64">(fd, pieces, count, offset);
}
ssize_t io_pwritev(int fd, const iovec* pieces, int count, off_t offset) {
  return write_pieces<"pwritev">(fd, pieces, count, offset);
}
ssize_t io_pwritev64(int fd, const iovec* pieces, int count, off_t offset) {
  return write_pieces<"pwritev64">(fd, pieces, count, offset);
}
ssize_t io_preadv2(int fd, const iovec* pieces, int count, off_t offset, int flags) {
  return read_pieces_at<"preadv2">(fd, pieces, count, offset, flags);
}
ssize_t io_preadv64v2(int fd, const iovec* pieces, int count, off_t offset, int flags) {
  return read_pieces_at<"preadv64v2">(fd, pieces, count, offset, flags);
}
ssize_t io_pwritev2(int fd, const iovec* pieces, int count, off_t offset, int flags) {
  return write_pieces<"pwritev2">(fd, pieces, count, offset, flags);
}
ssize_t io_pwritev64v2(int fd, const iovec* pieces, int count, off_t offset, int flags) {
  return write_pieces<"pwritev64v2">(fd, pieces, count, offset, flags);
}

ssize_t io_send(int fd, const void* buffer, std::size_t bytes, int flags) {
  const auto real = Real<"send", ssize_t(int, const void*, std::size_t, int)>::get();
  return take(buffer, bytes, [&] { return real(fd, buffer, bytes, flags); });
}
ssize_t io_sendto(int fd, const void* buffer, std::size_t bytes, int flags, const void* address,
                  socklen_t address_bytes) {
  const auto real =
      Real<"sendto", ssize_t(int, const void*, std::size_t, int, const void*, socklen_t)>::get();
  const auto call = [&] { return real(fd, buffer, bytes, flags, address, address_bytes); };
  if (!is_attached()) return call();
  return call_prepared(
      [&] {
        const bool managed = prepare(address, address_bytes, Access::read);
        return prepare(buffer, bytes, Access::read) || managed;
      },
      call);
}
ssize_t io_sendmsg(int fd, const msghdr* header, int flags) {
  const auto real = Real<"sendmsg", ssize_t(int, const msghdr*, int)>::get();
  const auto call = [&] { return real(fd, header, flags); };
  if (!is_attached() || !is_readable(header, sizeof *header) ||
      !is_array(header->msg_iov, header->msg_iovlen))
    return call();
  return call_prepared([&] { return prepare_message(*header, Access::read); }, call);
}

ssize_t io_recv(int fd, void* buffer, std::size_t bytes, int flags) {
  const auto real = Real<"recv", ssize_t(int, void*, std::size_t, int)>::get();
  return put(fd, buffer, bytes, no_rest,
             [&](void* into, std::size_t size) { return real(fd, into, size, flags); });
}
ssize_t io_recvfrom(int fd, void* buffer, std::size_t bytes, int flags, void* address,
                    socklen_t* address_bytes) {
  const auto real =
      Real<"recvfrom", ssize_t(int, void*, std::size_t, int, void*, socklen_t*)>::get();
  const auto prepare_rest = [&] {
    const bool managed = prepare(address, sizeof(sockaddr_storage), Access::write);
    return prepare(address_bytes, sizeof *address_bytes, Access::write) || managed;
  };
  return put(fd, buffer, bytes, prepare_rest, [&](void* into, std::size_t size) {
    return real(fd, into, size, flags, address, address_bytes);
  });
}
ssize_t io_recvmsg(int fd, msghdr* header, int flags) {
  const auto real = Real<"recvmsg", ssize_t(int, msghdr*, int)>::get();
  if (!is_attached() || !is_readable(header, sizeof *header) ||
      !is_array(header->msg_iov, header->msg_iovlen))
    return real(fd, header, flags);
  return put(
      fd, header->msg_iov, header->msg_iovlen,
      [&] { return prepare_message(*header, Access::write); },
      [&](iovec* into) {
        if (into == header->msg_iov) return real(fd, header, flags);
        msghdr own = *header;
        own.msg_iov = into;
        const ssize_t result = real(fd, &own, flags);
        if (result >= 0) {
          header->msg_namelen = own.msg_namelen;
          header->msg_controllen = own.msg_controllen;
          header->msg_flags = own.msg_flags;
        }
        return result;
      });
}

ssize_t io_read_chk(int fd, void* buffer, std::size_t bytes, std::size_t size) {
  if (bytes > size)  // the real function ends the program
    return Real<"__read_chk", ssize_t(int, void*, std::size_t, std::size_t)>::get()(fd, buffer,
                                                                                    bytes, size);
  return io_read(fd, buffer, bytes);
}
ssize_t io_pread_chk(int fd, void* buffer, std::size_t bytes, off_t offset, std::size_t size) {
  if (bytes > size)
    return Real<"__pread_chk", ssize_t(int, void*, std::size_t, off_t, std::size_t)>::get()(
        fd, buffer, bytes, offset, size);
  return io_pread(fd, buffer, bytes, offset);
}
ssize_t io_pread64_chk(int fd, void* buffer, std::size_t bytes, off_t offset, std::size_t size) {
  if (bytes > size)
    return Real<"__pread64_chk", ssize_t(int, void*, std::size_t, off_t, std::size_t)>::get()(
        fd, buffer, bytes, offset, size);
  return io_pread64(fd, buffer, bytes, offset);
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
