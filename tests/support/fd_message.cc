#include "support/fd_message.h"

#include <sys/socket.h>

#include <cstring>

namespace wherry::test {
namespace {

struct Message {
  Message(void* data, std::size_t bytes) : content{data, bytes} {
    header.msg_iov = &content;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
  }

  iovec content;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header = {};
};

}  // namespace

bool send_bytes(int socket, const void* message, std::size_t bytes, int fd) {
  Message sent(const_cast<void*>(message), bytes);
  if (fd < 0) {
    sent.header.msg_control = nullptr;
    sent.header.msg_controllen = 0;
  } else {
    cmsghdr* const header = CMSG_FIRSTHDR(&sent.header);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  return ::sendmsg(socket, &sent.header, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes);
}

bool receive_bytes(int socket, void* message, std::size_t bytes, int& fd) {
  Message received(message, bytes);
  fd = -1;
  if (::recvmsg(socket, &received.header, MSG_CMSG_CLOEXEC) != static_cast<ssize_t>(bytes))
    return false;
  if (const cmsghdr* const header = CMSG_FIRSTHDR(&received.header))
    std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return true;
}

}  // namespace wherry::test
