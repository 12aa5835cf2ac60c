#include "os/process/socket.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/patience.h"
#include "support/catch.h"

namespace wherry::impl::socket_test {
namespace {

std::array<std::byte, 4> message(int value) {
  return {std::byte(value), std::byte{1}, std::byte{2}, std::byte{3}};
}

ReceivedMessage receive(const Fd& socket, std::span<std::byte> buffer, std::uint64_t limit_ms) {
  Patience patience(limit_ms * 1'000'000);
  return receive_message(socket, buffer, patience);
}

TEST_CASE("Messages arrive complete and in order, with their descriptors") {
  const auto [one, other] = make_socket_pair();
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  REQUIRE(send_message(one, message(7), ends[1]) == 0);
  REQUIRE(send_message(one, message(8)) == 0);
  ::close(ends[1]);

  std::array<std::byte, 4> buffer;
  auto first = receive(other, buffer, 1000);
  REQUIRE(first);
  CHECK(buffer == message(7));
  REQUIRE(first.passed);
  CHECK((::fcntl(first.passed.get(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK(::write(first.passed.get(), "x", 1) == 1);
  char byte = 0;
  CHECK(::read(ends[0], &byte, 1) == 1);
  CHECK(byte == 'x');
  ::close(ends[0]);

  const auto second = receive(other, buffer, 1000);
  REQUIRE(second);
  CHECK(buffer == message(8));
  CHECK_FALSE(second.passed);
}

TEST_CASE("Receiving ends at its time limit, and when the other end closes") {
  auto [one, other] = make_socket_pair();
  std::array<std::byte, 4> buffer;
  CHECK(receive(other, buffer, 10).error == ETIMEDOUT);
  one.reset();
  CHECK(receive(other, buffer, 1000).error == EPIPE);
  CHECK(send_message(other, buffer) == EPIPE);
}

TEST_CASE("A message of another size is refused") {
  const auto [one, other] = make_socket_pair();
  std::array<std::byte, 2> small{};
  std::array<std::byte, 8> large{};
  REQUIRE(send_message(one, message(1)) == 0);
  CHECK(receive(other, small, 1000).error == EMSGSIZE);
  REQUIRE(send_message(one, message(1)) == 0);
  CHECK(receive(other, large, 1000).error == EMSGSIZE);
}

}  // namespace
}  // namespace wherry::impl::socket_test
