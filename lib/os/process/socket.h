// A pair of connected sockets on which whole messages travel, each with at most one descriptor.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "os/files/fd.h"

namespace wherry::impl {

class Patience;

// Closed on exec. Throws std::system_error.
std::pair<Fd, Fd> make_socket_pair();

// Sends one message, with a duplicate of `passed` unless it is negative. Never waits and raises no
// SIGPIPE. Returns 0 or an errno (EPIPE: nobody holds the other end).
[[nodiscard]] int send_message(const Fd& socket, std::span<const std::byte> message,
                               int passed = -1);

// Ends the conversation for both ends, whichever processes hold them: the other end hears EPIPE.
void shut_down(const Fd& socket);

struct ReceivedMessage {
  int error = 0;  // EPIPE: the other end is closed; ETIMEDOUT; EMSGSIZE: not of this size
  Fd passed;      // empty when none came
  explicit operator bool() const { return error == 0; }
};

// Receives one message of exactly buffer.size() bytes. Waits for it until the patience is over.
[[nodiscard]] ReceivedMessage receive_message(const Fd& socket, std::span<std::byte> buffer,
                                              Patience& patience);
// The same without waiting.
[[nodiscard]] ReceivedMessage receive_message(const Fd& socket, std::span<std::byte> buffer);

}  // namespace wherry::impl
