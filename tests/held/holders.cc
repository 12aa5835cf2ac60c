#include "held/holders.h"

#include <fcntl.h>
#include <liburing.h>
#include <linux/aio_abi.h>
#include <linux/magic.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "held/gate.h"

namespace wherry::test {
namespace {

constexpr int limit_ms = 10'000;
constexpr int attempts_max = 100;
constexpr std::size_t page = Gate::bytes;

struct KindRow {
  HolderKind kind;
  const char* name;
  bool writes = false;
  bool wrapped = false;
  bool of_peer = false;
  bool brief = false;
  bool looks_up_writable = writes;  // Linux wants pages that may be written
};

constexpr std::array kinds{
    KindRow{HolderKind::vmsplice, "vmsplice"},
    KindRow{HolderKind::tee, "tee"},
    KindRow{HolderKind::splice_to_pipe, "splice to a pipe"},
    KindRow{HolderKind::splice_to_socket, "splice to a socket"},
    KindRow{HolderKind::zerocopy_send, "MSG_ZEROCOPY"},
    KindRow{.kind = HolderKind::direct_write, .name = "direct write", .wrapped = true},
    KindRow{HolderKind::raw_direct_write, "raw direct write"},
    KindRow{HolderKind::aio_write, "libaio write"},
    KindRow{HolderKind::ring_write, "io_uring write"},
    // When the buffer is registered, Linux does not know yet whether it will be read or written.
    KindRow{.kind = HolderKind::ring_write_fixed,
            .name = "io_uring write_fixed",
            .looks_up_writable = true},
    KindRow{.kind = HolderKind::peer_read, .name = "process_vm_readv", .of_peer = true},
    KindRow{.kind = HolderKind::peer_file_read,
            .name = "/proc/PID/mem",
            .of_peer = true,
            .brief = true},
    KindRow{.kind = HolderKind::ptrace_peek, .name = "ptrace", .of_peer = true, .brief = true},
    KindRow{
        .kind = HolderKind::direct_read, .name = "direct read", .writes = true, .wrapped = true},
    KindRow{HolderKind::raw_direct_read, "raw direct read", true},
    KindRow{HolderKind::aio_read, "libaio read", true},
    KindRow{HolderKind::ring_read, "io_uring read", true},
    KindRow{HolderKind::ring_read_fixed, "io_uring read_fixed", true},
    KindRow{.kind = HolderKind::peer_write,
            .name = "process_vm_writev",
            .writes = true,
            .of_peer = true},
};

const KindRow& row_of(HolderKind kind) {
  return *std::ranges::find(kinds, kind, &KindRow::kind);
}

// Thrown if a holder is not possible on this machine, or with these privileges.
struct Missing : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string text_of(const std::string& what, int error) {
  return what + ": " + std::strerror(error);
}
[[noreturn]] void missing(const std::string& what) {
  throw Missing(text_of(what, errno));
}
[[noreturn]] void failed(const std::string& what) {
  throw std::runtime_error(text_of(what, errno));
}

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  operator int() const { return fd_; }

 private:
  int fd_;
};

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Buffer = std::unique_ptr<std::uint64_t[], Free>;

// Ordinary memory that direct I/O accepts.
Buffer make_buffer(std::size_t bytes) {
  return Buffer(static_cast<std::uint64_t*>(std::aligned_alloc(page, bytes)));
}

struct Pipe {
  Descriptor out, in;

  explicit Pipe(std::size_t bytes) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) failed("pipe2");
    out = Descriptor(ends[0]);
    in = Descriptor(ends[1]);
    if (::fcntl(in, F_SETPIPE_SZ, static_cast<int>(bytes)) < 0) missing("F_SETPIPE_SZ");
  }
};

// Reads as many bytes as the other end has sent.
void read_all(int fd, void* into, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    pollfd polled{fd, POLLIN, 0};
    if (::poll(&polled, 1, limit_ms) <= 0) throw std::runtime_error("the data does not come");
    const ssize_t got = ::read(fd, static_cast<std::byte*>(into) + done, bytes - done);
    if (got <= 0) failed("read");
    done += static_cast<std::size_t>(got);
  }
}

// A file without a name for direct I/O. Throws Missing where there is no direct I/O.
Descriptor make_direct_file() {
  const char* const chosen = std::getenv("TMPDIR");
  const std::string folder = chosen != nullptr ? chosen : "/var/tmp";
  Descriptor file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600));
  if (file < 0) missing("O_DIRECT in " + folder);
  struct statfs system {};
  if (::fstatfs(file, &system) != 0) failed("fstatfs");
  if (system.f_type == TMPFS_MAGIC) throw Missing(folder + " is a tmpfs, which copies");
  return file;
}

class Hold {
 public:
  explicit Hold(const HoldOrder& order) : order_(order) {}
  virtual ~Hold() = default;
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  // Returns when the pages are held.
  virtual void begin() = 0;
  // Reads or writes what is held, and lets go. `seen`: what a holder that reads has read.
  virtual void end(Comparison& seen) = 0;

 protected:
  const HoldOrder& order() const { return order_; }
  std::size_t words() const { return order_.bytes / sizeof(std::uint64_t); }
  // Before a system call that needs the pages present.
  void touch() const {
    if (order_.serves_system_calls || is_of_peer(order_.kind)) return;
    WHERRY_TRY(wherryTouchPages(order_.first, order_.bytes, touch_flags(order_.kind)));
  }
  // Repeats a system call as docs/system-calls.md says. Returns what it returns in the end.
  template <typename Call>
  ssize_t repeat(const Call& call) const {
    for (int attempt = 0;; ++attempt) {
      touch();
      const ssize_t result = call();
      if (result >= 0 || errno != EFAULT || order_.serves_system_calls || attempt == attempts_max)
        return result;
    }
  }

 private:
  const HoldOrder order_;
};

// ---- pipes and sockets: the pages are held until somebody reads the data

class PipeHold : public Hold {
 public:
  explicit PipeHold(const HoldOrder& order) : Hold(order), first_(order.bytes) {}

  void begin() override {
    const iovec memory{order().first, order().bytes};
    const ssize_t got =
        repeat([&] { return ::vmsplice(first_.in, &memory, 1, SPLICE_F_NONBLOCK); });
    if (got != static_cast<ssize_t>(order().bytes)) failed("vmsplice");
    pass_on();
  }
  void end(Comparison& seen) override { check(holding(), order().bytes, seen); }

 protected:
  virtual void pass_on() {}
  virtual int holding() const { return first_.out; }
  const Pipe& first() const { return first_; }
  // Reads the bytes, which are those from the start of the memory on.
  void check(int fd, std::size_t bytes, Comparison& seen) const {
    const Buffer found = make_buffer(order().bytes);
    read_all(fd, found.get(), bytes);
    seen.add(found.get(), order().first, bytes / sizeof(std::uint64_t), order().salt);
  }

 private:
  const Pipe first_;
};

class TeeHold final : public PipeHold {
 public:
  explicit TeeHold(const HoldOrder& order) : PipeHold(order), second_(order.bytes) {}

 private:
  void pass_on() override {
    const ssize_t got = ::tee(first().out, second_.in, order().bytes, SPLICE_F_NONBLOCK);
    if (got != static_cast<ssize_t>(order().bytes)) failed("tee");
    Comparison of_first;
    check(first().out, order().bytes, of_first);
    if (of_first.wrong != 0) throw std::runtime_error("wrong contents before anything moved");
  }
  int holding() const override { return second_.out; }

  const Pipe second_;
};

class SpliceHold final : public PipeHold {
 public:
  explicit SpliceHold(const HoldOrder& order) : PipeHold(order), second_(order.bytes) {}

 private:
  void pass_on() override {
    const ssize_t got =
        ::splice(first().out, nullptr, second_.in, nullptr, order().bytes, SPLICE_F_NONBLOCK);
    if (got != static_cast<ssize_t>(order().bytes)) failed("splice");
  }
  int holding() const override { return second_.out; }

  const Pipe second_;
};

// Since 5.18 Linux lets the pages of a packet go on the CPU that has sent it. If another CPU reads
// the packet, they stay held until the sending CPU receives its next packet: each gets one here.
void receive_on_each_cpu() {
  const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  cpu_set_t all;
  if (::bind(socket, any, bytes) != 0 || ::getsockname(socket, any, &bytes) != 0 ||
      ::sched_getaffinity(0, sizeof all, &all) != 0)
    missing("packets to this machine");
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &all)) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    char packet = 0;
    if (::sched_setaffinity(0, sizeof one, &one) == 0 &&
        ::sendto(socket, &packet, 1, 0, any, bytes) == 1)
      (void)::recv(socket, &packet, 1, 0);
  }
  (void)::sched_setaffinity(0, sizeof all, &all);
}

// Two ends of a connection. What is sent stays with the sender until the receiver reads: its window
// has space for less than a page.
struct Connection {
  Descriptor sender, receiver;

  Connection() {
    const Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sender = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    set(listener, SO_RCVBUF, 2304);
    set(sender, SO_SNDBUF, 1 << 20);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener, any, bytes) != 0 || ::getsockname(listener, any, &bytes) != 0 ||
        ::listen(listener, 1) != 0 || ::connect(sender, any, bytes) != 0)
      missing("a connection to this machine");
    pollfd polled{listener, POLLIN, 0};
    if (::poll(&polled, 1, limit_ms) <= 0) throw Missing("no connection to this machine");
    receiver = Descriptor(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (receiver < 0) failed("accept");
  }
  void widen() const { set(receiver, SO_RCVBUF, 1 << 20); }
  static void set(int socket, int option, int value) {
    if (::setsockopt(socket, SOL_SOCKET, option, &value, sizeof value) != 0) missing("setsockopt");
  }
};

class SocketHold final : public PipeHold {
 public:
  using PipeHold::PipeHold;

  void end(Comparison& seen) override {
    connection_.widen();
    const Buffer found = make_buffer(order().bytes);
    read_all(connection_.receiver, found.get(), sent_);
    receive_on_each_cpu();
    read_all(first().out, reinterpret_cast<std::byte*>(found.get()) + sent_, order().bytes - sent_);
    seen.add(found.get(), order().first, words(), order().salt);
  }

 private:
  void pass_on() override {
    for (;;) {
      const ssize_t got = ::splice(first().out, nullptr, connection_.sender, nullptr,
                                   order().bytes - sent_, SPLICE_F_NONBLOCK | SPLICE_F_MORE);
      if (got > 0) sent_ += static_cast<std::size_t>(got);
      if (got <= 0 || sent_ == order().bytes) break;
    }
    if (sent_ == 0) failed("splice to a socket");
  }

  const Connection connection_;
  std::size_t sent_ = 0;
};

class ZerocopyHold final : public Hold {
 public:
  using Hold::Hold;

  void begin() override {
    Connection::set(connection_.sender, SO_ZEROCOPY, 1);
    iovec memory{order().first, order().bytes};
    msghdr message{};
    message.msg_iov = &memory;
    message.msg_iovlen = 1;
    const ssize_t got = repeat([&] {
      return ::sendmsg(connection_.sender, &message, MSG_ZEROCOPY | MSG_DONTWAIT | MSG_NOSIGNAL);
    });
    if (got <= 0) failed("sendmsg with MSG_ZEROCOPY");
    sent_ = static_cast<std::size_t>(got);
    // Linux reports here when it holds nothing any more.
    msghdr report{};
    if (::recvmsg(connection_.sender, &report, MSG_ERRQUEUE | MSG_DONTWAIT) >= 0)
      throw std::runtime_error("the socket does not hold what it sends");
  }
  void end(Comparison& seen) override {
    connection_.widen();
    const Buffer found = make_buffer(order().bytes);
    read_all(connection_.receiver, found.get(), sent_);
    receive_on_each_cpu();
    seen.add(found.get(), order().first, sent_ / sizeof(std::uint64_t), order().salt);
  }

 private:
  const Connection connection_;
  std::size_t sent_ = 0;
};

// ---- calls that wait at the gate, behind the pages of the memory

class GatedHold : public Hold {
 public:
  explicit GatedHold(const HoldOrder& order) : Hold(order), gate_(gate_here()) {}

  void begin() final {
    prepare();
    for (int attempt = 0;; ++attempt) {
      touch();
      gate_.close();
      start();
      if (comes_to_gate()) return;
      const long result = finish();
      if (result != -EFAULT || attempt == attempts_max)
        throw std::runtime_error(text_of("the call ended with " + std::to_string(result),
                                         result < 0 ? static_cast<int>(-result) : 0));
    }
  }
  void end(Comparison& seen) final {
    open_gate();
    const long result = finish();
    if (result < static_cast<long>(order().bytes))
      throw std::runtime_error(text_of("the held call ended with " + std::to_string(result),
                                       result < 0 ? static_cast<int>(-result) : 0));
    examine(seen);
  }

 protected:
  Gate& gate() const { return gate_; }
  std::array<iovec, 2> memory_and_gate() const {
    return {iovec{order().first, order().bytes}, iovec{gate_.page(), Gate::bytes}};
  }

  virtual void prepare() {}
  // Begins the call, and returns at once.
  virtual void start() = 0;
  virtual bool has_ended() = 0;
  // Waits for the end of the call. Returns what it returned, or a negative errno.
  virtual long finish() = 0;
  virtual void open_gate() { gate_.open(); }
  virtual void examine(Comparison&) {}

 private:
  static Gate& gate_here() {
    try {
      return Gate::of_process();
    } catch (const std::runtime_error& error) {
      throw Missing(error.what());
    }
  }
  bool comes_to_gate() {
    for (int waited_ms = 0; waited_ms < limit_ms; ++waited_ms) {
      if (gate_.wait_for_arrival(1)) return true;
      if (has_ended()) return false;
    }
    throw std::runtime_error("the call neither ends nor comes to the gate");
  }

  Gate& gate_;
};

// A call that is made by a thread.
class ThreadedHold : public GatedHold {
 public:
  using GatedHold::GatedHold;

 protected:
  virtual long call() = 0;  // a negative errno if it fails
  // For the destructors of classes whose members call() uses.
  void let_go() {
    if (!thread_.joinable()) return;
    gate().open();
    thread_.join();
  }

 private:
  void start() final {
    has_ended_ = false;
    thread_ = std::thread([this] {
      result_ = call();
      has_ended_ = true;
    });
  }
  bool has_ended() final { return has_ended_; }
  long finish() final {
    thread_.join();
    return result_;
  }

  std::thread thread_;
  std::atomic<bool> has_ended_ = false;
  long result_ = 0;
};

long or_error(long result) {
  return result < 0 ? -errno : result;
}

// The file of a direct transfer. It has what a holder that writes is to write into the memory.
class DirectFile {
 public:
  explicit DirectFile(const HoldOrder& order)
      : order_(order), bytes_(order.bytes + Gate::bytes), buffer_(make_buffer(bytes_)) {
    for (std::size_t i = 0; i < bytes_ / sizeof(std::uint64_t); ++i)
      buffer_[i] = value_at(order.first + i, order.new_salt);
    if (::pwrite(file_, buffer_.get(), bytes_, 0) != static_cast<ssize_t>(bytes_))
      missing("a direct write of ordinary memory");
  }
  int fd() const { return file_; }
  // Of a holder that reads the memory: what it has written to the file.
  void examine(Comparison& seen) const {
    if (::pread(file_, buffer_.get(), bytes_, 0) != static_cast<ssize_t>(bytes_)) failed("pread");
    seen.add(buffer_.get(), order_.first, order_.bytes / sizeof(std::uint64_t), order_.salt);
  }

 private:
  const HoldOrder& order_;
  const std::size_t bytes_;
  const Descriptor file_ = make_direct_file();
  const Buffer buffer_;
};

class DirectHold final : public ThreadedHold {
 public:
  using ThreadedHold::ThreadedHold;
  ~DirectHold() override { let_go(); }

 private:
  long call() override {
    const auto parts = memory_and_gate();
    const int count = static_cast<int>(parts.size());
    switch (order().kind) {
      case HolderKind::direct_write:
        return or_error(::pwritev(file_.fd(), parts.data(), count, 0));
      case HolderKind::direct_read:
        return or_error(::preadv(file_.fd(), parts.data(), count, 0));
      case HolderKind::raw_direct_write:
        return or_error(::syscall(SYS_pwritev, file_.fd(), parts.data(), parts.size(), 0L, 0L));
      case HolderKind::raw_direct_read:
        return or_error(::syscall(SYS_preadv, file_.fd(), parts.data(), parts.size(), 0L, 0L));
      default:
        return call_by_aio();
    }
  }
  // io_submit() looks the pages up in the calling thread.
  long call_by_aio() const {
    const auto parts = memory_and_gate();
    aio_context_t context = 0;
    if (::syscall(SYS_io_setup, 1, &context) != 0) return -errno;
    iocb request{};
    request.aio_lio_opcode = writes(order().kind) ? IOCB_CMD_PREADV : IOCB_CMD_PWRITEV;
    request.aio_fildes = static_cast<unsigned>(file_.fd());
    request.aio_buf = reinterpret_cast<std::uintptr_t>(parts.data());
    request.aio_nbytes = parts.size();
    iocb* const requests = &request;
    io_event event{};
    long result = or_error(::syscall(SYS_io_submit, context, 1, &requests));
    if (result == 1) {
      timespec limit{limit_ms / 1000, 0};
      const long got = ::syscall(SYS_io_getevents, context, 1, 1, &event, &limit);
      result = got == 1 ? static_cast<long>(event.res) : -ETIMEDOUT;
    }
    ::syscall(SYS_io_destroy, context);
    return result;
  }
  void examine(Comparison& seen) override {
    if (!writes(order().kind)) file_.examine(seen);
  }

  const DirectFile file_{order()};
};

class Ring {
 public:
  Ring() {
    if (const int error = ::io_uring_queue_init(4, &ring_, 0); error < 0)
      throw Missing(text_of("io_uring", -error));
  }
  ~Ring() { ::io_uring_queue_exit(&ring_); }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  io_uring_sqe* next() { return ::io_uring_get_sqe(&ring_); }
  void submit() {
    if (::io_uring_submit(&ring_) != 1) throw std::runtime_error("io_uring accepts nothing");
  }
  bool has_ended() {
    io_uring_cqe* cqe = nullptr;
    return ::io_uring_peek_cqe(&ring_, &cqe) == 0;
  }
  long finish() {
    __kernel_timespec limit{limit_ms / 1000, 0};
    io_uring_cqe* cqe = nullptr;
    if (const int error = ::io_uring_wait_cqe_timeout(&ring_, &cqe, &limit); error < 0)
      throw std::runtime_error(text_of("io_uring", -error));
    const long result = cqe->res;
    ::io_uring_cqe_seen(&ring_, cqe);
    return result;
  }
  io_uring* get() { return &ring_; }

 private:
  io_uring ring_{};
};

class RingHold final : public GatedHold {
 public:
  using GatedHold::GatedHold;
  ~RingHold() override {
    gate().open();  // a worker of io_uring may wait there
  }

 private:
  void start() override {
    parts_ = memory_and_gate();
    io_uring_sqe* const sqe = ring_.next();
    if (writes(order().kind))
      ::io_uring_prep_readv(sqe, file_.fd(), parts_.data(), parts_.size(), 0);
    else
      ::io_uring_prep_writev(sqe, file_.fd(), parts_.data(), parts_.size(), 0);
    ::io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);  // otherwise this thread would wait at the gate
    ring_.submit();
  }
  bool has_ended() override { return ring_.has_ended(); }
  long finish() override { return ring_.finish(); }
  void examine(Comparison& seen) override {
    if (!writes(order().kind)) file_.examine(seen);
  }

  const DirectFile file_{order()};
  std::array<iovec, 2> parts_{};
  Ring ring_;
};

// The pages are held from the registration on.
class FixedRingHold final : public Hold {
 public:
  using Hold::Hold;

  void begin() override {
    const iovec memory{order().first, order().bytes};
    const ssize_t result = repeat([&] {
      const int error = ::io_uring_register_buffers(ring_.get(), &memory, 1);
      errno = -error;
      return error;
    });
    if (result == -ENOMEM) missing("io_uring_register_buffers");
    if (result < 0) failed("io_uring_register_buffers");
  }
  void end(Comparison& seen) override {
    io_uring_sqe* const sqe = ring_.next();
    const auto bytes = static_cast<unsigned>(order().bytes);
    if (writes(order().kind))
      ::io_uring_prep_read_fixed(sqe, file_.fd(), order().first, bytes, 0, 0);
    else
      ::io_uring_prep_write_fixed(sqe, file_.fd(), order().first, bytes, 0, 0);
    ring_.submit();
    if (const long result = ring_.finish(); result != static_cast<long>(order().bytes))
      throw std::runtime_error("io_uring has transferred " + std::to_string(result));
    ::io_uring_unregister_buffers(ring_.get());
    if (!writes(order().kind)) file_.examine(seen);
  }

 private:
  const DirectFile file_{order()};
  Ring ring_;
};

// process_vm_readv looks up all pages, and then copies them to the local memory, at whose first
// page the gate is. process_vm_writev likewise.
class PeerHold final : public ThreadedHold {
 public:
  explicit PeerHold(const HoldOrder& order)
      : ThreadedHold(order), local_(make_buffer(order.bytes)) {
    for (std::size_t i = 0; i < words(); ++i)
      local_[i] = writes(order.kind) ? value_at(order.first + i, order.new_salt) : 0;
  }

  ~PeerHold() override { let_go(); }

 private:
  long call() override {
    const iovec remote{order().first, order().bytes};
    const std::array<iovec, 2> local{
        iovec{gate().page(), Gate::bytes},
        iovec{local_.get() + words_of_gate, order().bytes - Gate::bytes}};
    return or_error(writes(order().kind)
                        ? ::process_vm_writev(order().target, local.data(), 2, &remote, 1, 0)
                        : ::process_vm_readv(order().target, local.data(), 2, &remote, 1, 0));
  }
  void open_gate() override {
    gate().open(std::span<const std::byte, Gate::bytes>(
        reinterpret_cast<const std::byte*>(local_.get()), Gate::bytes));
  }
  void examine(Comparison& seen) override {
    if (writes(order().kind)) return;
    std::memcpy(local_.get(), gate().page(), Gate::bytes);
    seen.add(local_.get(), order().first, words(), order().salt);
  }

  static constexpr std::size_t words_of_gate = Gate::bytes / sizeof(std::uint64_t);
  const Buffer local_;
};

// ---- readers that hold a page only while they copy it, and read all the time

class BriefHold : public Hold {
 public:
  using Hold::Hold;

  void begin() final {
    thread_ = std::thread([this] { work(); });
    for (int waited_ms = 0; rounds_ == 0 && !has_ended_; ++waited_ms) {
      if (waited_ms == limit_ms) throw std::runtime_error("the peer reads nothing");
      ::poll(nullptr, 0, 1);
    }
    if (has_ended_) stop_and_throw();
  }
  void end(Comparison& seen) final {
    stop();
    if (!failure_.empty()) stop_and_throw();
    seen = seen_;
  }

 protected:
  virtual void open() = 0;
  virtual void close() {}
  // Reads the word. Returns false if its page is in another pool: then Linux does not wait for the
  // page, whichever trap there is, and the read fails with EIO.
  virtual bool read(const std::uint64_t* word, std::uint64_t& found) = 0;
  // For the destructors of classes whose members these use, too.
  void stop() {
    stops_ = true;
    if (thread_.joinable()) thread_.join();
  }

 private:
  void work() {
    try {
      open();
      for (std::size_t i = 0; !stops_; i = (i + 67) % words()) {
        std::uint64_t found = 0;
        if (!read(order().first + i, found)) continue;
        if (found == 0 && order().protects) continue;
        seen_.add(&found, order().first + i, 1, order().salt);
        ++rounds_;
      }
      close();
    } catch (const Missing& error) {
      failure_ = error.what();
      is_missing_ = true;
    } catch (const std::exception& error) {
      failure_ = error.what();
    }
    has_ended_ = true;
  }
  [[noreturn]] void stop_and_throw() {
    stop();
    if (is_missing_) throw Missing(failure_);
    throw std::runtime_error(failure_);
  }

  std::thread thread_;
  std::atomic<bool> stops_ = false;
  std::atomic<bool> has_ended_ = false;
  std::atomic<int> rounds_ = 0;
  Comparison seen_;
  std::string failure_;
  bool is_missing_ = false;
};

class PeerFileHold final : public BriefHold {
 public:
  using BriefHold::BriefHold;
  ~PeerFileHold() override { stop(); }

 private:
  void open() override {
    const std::string path = "/proc/" + std::to_string(order().target) + "/mem";
    file_ = Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file_ < 0) missing(path);
  }
  bool read(const std::uint64_t* word, std::uint64_t& found) override {
    const auto place = static_cast<off_t>(reinterpret_cast<std::uintptr_t>(word));
    if (::pread(file_, &found, sizeof found, place) == sizeof found) return true;
    if (errno != EIO) failed("a read of /proc/PID/mem");
    return false;
  }

  Descriptor file_;
};

class PtraceHold final : public BriefHold {
 public:
  using BriefHold::BriefHold;
  ~PtraceHold() override { stop(); }

 private:
  void open() override {
    if (::ptrace(PTRACE_SEIZE, order().thread, nullptr, nullptr) != 0) missing("PTRACE_SEIZE");
    if (::ptrace(PTRACE_INTERRUPT, order().thread, nullptr, nullptr) != 0)
      failed("PTRACE_INTERRUPT");
    for (int waited_ms = 0; ::waitpid(order().thread, nullptr, __WALL | WNOHANG) == 0;
         ++waited_ms) {
      if (waited_ms == limit_ms) throw std::runtime_error("the traced thread does not stop");
      ::poll(nullptr, 0, 1);
    }
  }
  void close() override { ::ptrace(PTRACE_DETACH, order().thread, nullptr, nullptr); }
  bool read(const std::uint64_t* word, std::uint64_t& found) override {
    if (::syscall(SYS_ptrace, PTRACE_PEEKDATA, order().thread, word, &found) == 0) return true;
    if (errno != EIO) failed("PTRACE_PEEKDATA");
    return false;
  }
};

std::unique_ptr<Hold> make_hold(const HoldOrder& order) {
  switch (order.kind) {
    case HolderKind::vmsplice:
      return std::make_unique<PipeHold>(order);
    case HolderKind::tee:
      return std::make_unique<TeeHold>(order);
    case HolderKind::splice_to_pipe:
      return std::make_unique<SpliceHold>(order);
    case HolderKind::splice_to_socket:
      return std::make_unique<SocketHold>(order);
    case HolderKind::zerocopy_send:
      return std::make_unique<ZerocopyHold>(order);
    case HolderKind::ring_write:
    case HolderKind::ring_read:
      return std::make_unique<RingHold>(order);
    case HolderKind::ring_write_fixed:
    case HolderKind::ring_read_fixed:
      return std::make_unique<FixedRingHold>(order);
    case HolderKind::peer_read:
    case HolderKind::peer_write:
      return std::make_unique<PeerHold>(order);
    case HolderKind::peer_file_read:
      return std::make_unique<PeerFileHold>(order);
    case HolderKind::ptrace_peek:
      return std::make_unique<PtraceHold>(order);
    default:
      return std::make_unique<DirectHold>(order);
  }
}

// The holder of this process, from begin_hold() to end_hold().
std::unique_ptr<Hold> current;

template <std::size_t size>
void copy_text(char (&into)[size], const char* text) {
  std::strncpy(into, text, size - 1);
  into[size - 1] = 0;
}

template <typename Function>
void answering(HoldAnswer& answer, const Function& function) {
  answer = {};
  try {
    function();
  } catch (const Missing& reason) {
    copy_text(answer.missing, reason.what());
  } catch (const std::exception& error) {
    copy_text(answer.failure, error.what());
  }
}

}  // namespace

const char* name_of(HolderKind kind) {
  return row_of(kind).name;
}
const std::vector<HolderKind>& all_holders() {
  static const std::vector<HolderKind> all = [] {
    std::vector<HolderKind> found;
    for (const KindRow& row : kinds) found.push_back(row.kind);
    return found;
  }();
  return all;
}
bool writes(HolderKind kind) {
  return row_of(kind).writes;
}
unsigned touch_flags(HolderKind kind) {
  return row_of(kind).looks_up_writable ? WHERRY_TOUCH_WRITE : WHERRY_TOUCH_READ;
}
bool is_wrapped(HolderKind kind) {
  return row_of(kind).wrapped;
}
bool is_of_peer(HolderKind kind) {
  return row_of(kind).of_peer;
}
bool is_brief(HolderKind kind) {
  return row_of(kind).brief;
}

void Comparison::add(const std::uint64_t* found, const std::uint64_t* place, std::size_t count,
                     std::uint64_t salt) {
  for (std::size_t i = 0; i < count; ++i, ++compared) {
    if (found[i] == value_at(place + i, salt)) continue;
    if (wrong++ == 0) {
      first_wrong = compared;
      first_difference = found[i];
    }
    zeros += found[i] == 0 ? 1 : 0;
  }
}

void begin_hold(const HoldOrder& order, HoldAnswer& answer) {
  answering(answer, [&] {
    current.reset();
    current = make_hold(order);
    current->begin();
  });
  if (answer.missing[0] != 0 || answer.failure[0] != 0) current.reset();
}

void end_hold(HoldAnswer& answer) {
  answering(answer, [&] { current->end(answer.seen); });
  current.reset();
}

}  // namespace wherry::test
