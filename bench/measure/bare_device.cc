#include "measure/bare_device.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "measure/timing.h"

namespace wherry::bench {
namespace {

void send_descriptor(int socket, int descriptor) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  if (::sendmsg(socket, &message, 0) != 1) fail("sendmsg");
}

int receive_descriptor(int socket) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (::recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) fail("recvmsg");
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
  return descriptor;
}

}  // namespace

BareDevice::BareDevice(std::byte* memory, std::size_t bytes, std::size_t stride)
    : pool_(bytes), alias_(pool_.map()) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) fail("socketpair");
  process_ = ::fork();
  if (process_ < 0) fail("fork");
  if (process_ == 0) {
    ::close(ends[0]);
    serve(ends[1], memory, stride);
  }
  ::close(ends[1]);
  socket_ = ends[0];
  uffd_ = receive_descriptor(socket_);
  enable_userfaultfd(uffd_);
  register_range(uffd_, memory, bytes);
}

BareDevice::~BareDevice() {
  // The process is killed, because closing this end of the socket would not end it: devices that
  // were forked later have inherited the end.
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
  ::close(socket_);
}

double BareDevice::touch() const {
  const char request = 1;
  double elapsed = 0;
  if (::write(socket_, &request, 1) != 1) fail("write to the device process");
  if (::read(socket_, &elapsed, sizeof elapsed) != sizeof elapsed)
    fail("read from the device process");
  return elapsed;
}

void BareDevice::serve(int socket, std::byte* memory, std::size_t stride) const noexcept {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  pool_.map_over(memory);
  const int uffd = open_raw_userfaultfd();
  send_descriptor(socket, uffd);
  pin_to_allowed_cpu(0);
  char request = 0;
  while (::read(socket, &request, 1) == 1) {
    const double elapsed = timed_touch(memory, pool_.bytes(), stride);
    if (::write(socket, &elapsed, sizeof elapsed) != sizeof elapsed) break;
  }
  ::_exit(0);
}

}  // namespace wherry::bench
