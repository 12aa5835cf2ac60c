// Messages over a Unix socket (SOCK_SEQPACKET), each with an optional descriptor.
#pragma once

#include <cstddef>
#include <type_traits>

namespace wherry::test {

// A negative fd: sends none. Returns false if the other end is closed or does not read.
bool send_bytes(int socket, const void* message, std::size_t bytes, int fd);
// fd: the received descriptor, or -1; it is close-on-exec. Returns false if the other end is
// closed, or silent for longer than SO_RCVTIMEO.
bool receive_bytes(int socket, void* message, std::size_t bytes, int& fd);

template <typename Message>
bool send_to(int socket, const Message& message, int fd = -1) {
  static_assert(std::is_trivially_copyable_v<Message>);
  return send_bytes(socket, &message, sizeof message, fd);
}
template <typename Message>
bool receive_from(int socket, Message& message, int& fd) {
  static_assert(std::is_trivially_copyable_v<Message>);
  return receive_bytes(socket, &message, sizeof message, fd);
}

}  // namespace wherry::test
