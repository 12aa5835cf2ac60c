// A pair of connected sockets for whole messages, each with at most one descriptor.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "os/files/fd.h"

namespace wherry::impl {

class Patience;

// Closed on exec. Throws std::system_error.
std::pair<Fd, Fd> make_socket_pair();

// Sends one message, with a duplicate of `passed` unless that is negative. Never waits and raises
// no SIGPIPE. Returns 0 or an errno (EPIPE: the other end is closed).
[[nodiscard]] int send_message(const Fd& socket, std::span<const std::byte> message,
                               int passed = -1);

// Ends the connection at both ends, in all processes that hold them. The other end then gets EPIPE.
void shut_down(const Fd& socket);

struct ReceivedMessage {
  int error = 0;   // EPIPE: the other end is closed; ETIMEDOUT; EMSGSIZE: wrong size
  Fd passed = {};  // empty if no descriptor came
  std::size_t bytes = 0;
  explicit operator bool() const { return error == 0; }
};

// Receives one message of exactly buffer.size() bytes. Waits until the patience is over.
[[nodiscard]] ReceivedMessage receive_message(const Fd& socket, std::span<std::byte> buffer,
                                              Patience& patience);
// Receives a message of buffer.size() bytes without waiting.
[[nodiscard]] ReceivedMessage receive_message(const Fd& socket, std::span<std::byte> buffer);
// Receives, without waiting, a message of `bytes_min` to buffer.size() bytes.
[[nodiscard]] ReceivedMessage receive_message(const Fd& socket, std::span<std::byte> buffer,
                                              std::size_t bytes_min);

}  // namespace wherry::impl
