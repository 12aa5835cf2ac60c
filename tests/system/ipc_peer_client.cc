#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "support/fd_message.h"
#include "support/stage.h"
#include "system/ipc_peer.h"

namespace wherry::test {
namespace {

constexpr int peer_socket = 3;  // the descriptor's number in the other program
constexpr timeval limit{60, 0};

}  // namespace

Stage& stage() {
  static Stage the_stage(ipc_devices);
  return the_stage;
}

Peer::Peer(const char* visible_devices) {
  stage();
  int sockets[2];
  expect(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0, "no sockets");
  socket_ = sockets[0];
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, sockets[1], peer_socket);
  char program[] = WHERRY_IPC_PEER;
  char* const arguments[] = {program, nullptr};
  // Set for the other program only: this program has read the variable at its own start.
  if (visible_devices != nullptr) ::setenv("CUDA_VISIBLE_DEVICES", visible_devices, 1);
  const int error = ::posix_spawn(&pid_, program, &actions, nullptr, arguments, environ);
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(sockets[1]);
  expect(error == 0, "the other program cannot be started");
  Answer ready;
  expect(receive_from(socket_, ready, ready.fd), "the other program is not ready");
}

Peer::~Peer() {
  ::close(socket_);
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
}

Answer Peer::ask(const Request& request, int fd) {
  expect(send_to(socket_, request, fd), "the other program is gone");
  Answer answer;
  int received = -1;
  expect(receive_from(socket_, answer, received), "the other program is silent");
  answer.fd = received;
  return answer;
}

std::uint64_t Peer::get(const Request& request, int fd) {
  const Answer answer = ask(request, fd);
  check(answer.result, "the request to the other program");
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
