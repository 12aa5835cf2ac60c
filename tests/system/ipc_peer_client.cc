#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "support/session.h"
#include "system/ipc_peer.h"

namespace wherry::test {
namespace {

constexpr int peer_socket = 3;  // where the program has it
constexpr timeval limit{60, 0};

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

bool send_to(int socket, const void* message, std::size_t bytes, int fd) {
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

bool receive_from(int socket, void* message, std::size_t bytes, int& fd) {
  Message received(message, bytes);
  fd = -1;
  if (::recvmsg(socket, &received.header, MSG_CMSG_CLOEXEC) != static_cast<ssize_t>(bytes))
    return false;
  if (const cmsghdr* const header = CMSG_FIRSTHDR(&received.header))
    std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return true;
}

Peer::Peer(const char* visible_devices) {
  int sockets[2];
  expect(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0, "no sockets");
  socket_ = sockets[0];
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, sockets[1], peer_socket);
  char program[] = WHERRY_IPC_PEER;
  char* const arguments[] = {program, nullptr};
  // This program has started long since.
  if (visible_devices != nullptr) ::setenv("CUDA_VISIBLE_DEVICES", visible_devices, 1);
  const int error = ::posix_spawn(&pid_, program, &actions, nullptr, arguments, environ);
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(sockets[1]);
  expect(error == 0, "the other program cannot be started");
  Answer ready;
  expect(receive_from(socket_, &ready, sizeof ready, ready.fd), "the other program is not ready");
}

Peer::~Peer() {
  ::close(socket_);
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
}

Answer Peer::ask(const Request& request, int fd) {
  expect(send_to(socket_, &request, sizeof request, fd), "the other program is gone");
  Answer answer;
  int received = -1;
  expect(receive_from(socket_, &answer, sizeof answer, received), "the other program is silent");
  answer.fd = received;
  return answer;
}

std::uint64_t Peer::get(const Request& request, int fd) {
  const Answer answer = ask(request, fd);
  check(answer.result, "what the other program was asked");
  return answer.value;
}

CUipcMemHandle Peer::handle_of(std::uint64_t address) {
  const Answer answer = ask({Ask::get_handle, 0, address});
  check(answer.result, "cuIpcGetMemHandle of the other program");
  return answer.handle;
}

void Peer::kill() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

}  // namespace wherry::test
