#include "bare_migration.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "report.h"

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

BareMigration::BareMigration(std::size_t bytes, std::size_t granularity)
    : bytes_(bytes),
      granularity_(granularity),
      sides_{Side{bytes}, Side{bytes}},
      memory_(sides_[0].pool.map()) {
  std::memset(sides_[0].alias, 1, bytes);
  start_device();
  sides_[0].uffd = open_userfaultfd();
  register_range(sides_[0].uffd, memory_, bytes);
  trap_.emplace(std::vector<int>{sides_[0].uffd, sides_[1].uffd},
                [this](std::size_t to, std::uintptr_t address) { migrate(to, address); });
}

BareMigration::~BareMigration() {
  ::close(device_socket_);
  ::waitpid(device_, nullptr, 0);
}

double BareMigration::touch_at_host() const {
  return timed_touch(memory_, bytes_, granularity_);
}

double BareMigration::touch_at_device() const {
  const char request = 1;
  double elapsed = 0;
  if (::write(device_socket_, &request, 1) != 1) fail("write to the device process");
  if (::read(device_socket_, &elapsed, sizeof elapsed) != sizeof elapsed) {
    fail("read from the device process");
  }
  return elapsed;
}

void BareMigration::start_device() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) fail("socketpair");
  device_ = ::fork();
  if (device_ < 0) fail("fork");
  if (device_ == 0) {
    ::close(ends[0]);
    serve_device(ends[1]);
  }
  ::close(ends[1]);
  device_socket_ = ends[0];
  sides_[1].uffd = receive_descriptor(device_socket_);
  enable_userfaultfd(sides_[1].uffd);
  register_range(sides_[1].uffd, memory_, bytes_);
}

void BareMigration::serve_device(int socket) {
  sides_[1].pool.map_over(memory_);
  const int uffd = open_raw_userfaultfd();
  send_descriptor(socket, uffd);
  pin_to_allowed_cpu(0);
  char request = 0;
  while (::read(socket, &request, 1) == 1) {
    const double elapsed = timed_touch(memory_, bytes_, granularity_);
    if (::write(socket, &elapsed, sizeof elapsed) != sizeof elapsed) break;
  }
  ::_exit(0);
}

void BareMigration::migrate(std::size_t to, std::uintptr_t address) {
  const Side& target = sides_[to];
  const Side& source = sides_[1 - to];
  const std::uintptr_t start = address & ~(std::uintptr_t{granularity_} - 1);
  const std::size_t offset = start - reinterpret_cast<std::uintptr_t>(memory_);
  set_write_protection(source.uffd, start, granularity_, true);
  copy_write_protected(target.uffd, start, source.alias + offset, granularity_);
  source.pool.punch(offset, granularity_);
  set_write_protection(target.uffd, start, granularity_, false);
  wake(target.uffd, start, granularity_);
}

}  // namespace wherry::bench
