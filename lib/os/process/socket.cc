#include "os/process/socket.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "os/process/poll.h"

namespace wherry::impl {
namespace {

// Space for one descriptor in a message's control data.
struct DescriptorBuffer {
  alignas(cmsghdr) char bytes[CMSG_SPACE(sizeof(int))] = {};
};

Fd passed_descriptor(const msghdr& header) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr;
       part = CMSG_NXTHDR(const_cast<msghdr*>(&header), part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(part), sizeof fd);
    return Fd(fd);
  }
  return {};
}

}  // namespace

std::pair<Fd, Fd> make_socket_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    throw_errno(errno, "socketpair");
  return {Fd(ends[0]), Fd(ends[1])};
}

int send_message(const Fd& socket, std::span<const std::byte> message, int passed) {
  iovec part{const_cast<std::byte*>(message.data()), message.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  DescriptorBuffer control;
  if (passed >= 0) {
    header.msg_control = control.bytes;
    header.msg_controllen = sizeof control.bytes;
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof passed);
    std::memcpy(CMSG_DATA(rights), &passed, sizeof passed);
  }
  for (;;) {
    if (::sendmsg(socket.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return 0;
    if (errno != EINTR) return errno == ECONNRESET ? EPIPE : errno;
  }
}

void shut_down(const Fd& socket) {
  ::shutdown(socket.get(), SHUT_RDWR);
}

ReceivedMessage receive_message(const Fd& socket, std::span<std::byte> buffer, Patience& patience) {
  pollfd polled{socket.get(), POLLIN, 0};
  const int ready = poll_descriptors({&polled, 1}, patience);
  if (ready <= 0) return {.error = ready == 0 ? ETIMEDOUT : errno};
  return receive_message(socket, buffer);
}

ReceivedMessage receive_message(const Fd& socket, std::span<std::byte> buffer) {
  return receive_message(socket, buffer, buffer.size());
}

ReceivedMessage receive_message(const Fd& socket, std::span<std::byte> buffer,
                                std::size_t bytes_min) {
  iovec part{buffer.data(), buffer.size()};
  msghdr header{};
  DescriptorBuffer control;
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.bytes;
  header.msg_controllen = sizeof control.bytes;
  ssize_t got;
  do {
    got = ::recvmsg(socket.get(), &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    const int error = errno == ECONNRESET ? EPIPE : errno == EAGAIN ? ETIMEDOUT : errno;
    return {.error = error};
  }
  ReceivedMessage result{0, passed_descriptor(header), static_cast<std::size_t>(got)};
  if (got == 0) {
    result.error = EPIPE;
  } else if (result.bytes < bytes_min || (header.msg_flags & MSG_TRUNC)) {
    result.error = EMSGSIZE;
  }
  return result;
}

}  // namespace wherry::impl
