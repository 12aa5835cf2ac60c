#include "held/places.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <system_error>

namespace wherry::test {
namespace {

constexpr int answer_limit_ms = 30'000;
constexpr std::size_t captures_max = 512;

struct Request {
  void (*call)(const void*) = nullptr;
  alignas(16) std::array<std::byte, captures_max> captures{};
};

struct Reply {
  std::array<char, 200> failure{};  // empty: none
};

}  // namespace

const char* name_of(Place place) {
  return place == Place::host ? "host" : place == Place::device ? "device" : "peer";
}

void* map_shared(std::size_t bytes) {
  void* const place =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
  return place;
}

Peer::Peer() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw std::system_error(errno, std::generic_category(), "socketpair");
  pid_ = ::fork();
  if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(ends[0]);
    serve(ends[1]);
  }
  ::close(ends[1]);
  socket_ = ends[0];
}

Peer::~Peer() {
  ::close(socket_);
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Peer::serve(int socket) {
  Request request;
  while (::recv(socket, &request, sizeof request, 0) == sizeof request) {
    Reply reply;
    try {
      request.call(request.captures.data());
    } catch (const std::exception& error) {
      std::strncpy(reply.failure.data(), error.what(), reply.failure.size() - 1);
    }
    if (::send(socket, &reply, sizeof reply, 0) != sizeof reply) break;
  }
  ::_exit(0);
}

void Peer::run(Call call, const void* captures, std::size_t bytes) const {
  Request request;
  if (bytes > request.captures.size()) throw std::invalid_argument("the captures are too large");
  request.call = call;
  std::memcpy(request.captures.data(), captures, bytes);
  Reply reply;
  pollfd polled{socket_, POLLIN, 0};
  if (::send(socket_, &request, sizeof request, MSG_NOSIGNAL) != sizeof request ||
      ::poll(&polled, 1, answer_limit_ms) <= 0 ||
      ::recv(socket_, &reply, sizeof reply, 0) != sizeof reply)
    throw std::runtime_error("the peer does not answer");
  if (reply.failure[0] != 0) throw std::runtime_error(reply.failure.data());
}

}  // namespace wherry::test
