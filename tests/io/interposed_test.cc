// libwherry_io in a program that is linked with it: the C library's functions find managed memory
// wherever it is, also if faults inside system calls cannot be answered, and invalid calls fail as
// usual. Everything runs twice: with what this machine allows, and with userfaultfd for user mode
// only.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "io/both_ways.h"
#include "io/held_read.h"
#include "io/read_functions.h"
#include "support/catch.h"
#include "support/child.h"
#include "support/conditions.h"
#include "support/seccomp_filter.h"
#include "support/session.h"
#include "support/witness.h"

extern "C" void wherry_io_attach();

namespace wherry::test::interposed_test {
namespace {

// The linker omits a library without references. A sanitizer has its own `read`, which calls the
// next one.
[[gnu::used]] void (*referred_to)() = wherry_io_attach;

constexpr std::size_t page_bytes = 4096;
constexpr std::size_t bytes = 40'000;  // several pages; fits into a socket's buffer
constexpr auto whole = static_cast<ssize_t>(bytes);
constexpr std::uint32_t device_bit = 2;

void in_both_ways(const std::function<void(const Session&)>& body) {
  test::in_both_ways([&] {
    const Session session("capacity=16M");
    body(session);
  });
}

// A kernel that calls use() again and again, until end() or the destruction of this.
class RepeatedUse {
 public:
  template <typename Use>
  RepeatedUse(const Session& session, const Use& use) : session_(session) {
    flag_[0].leave = 0;
    session.launch(0, 1, [use, leave = &flag_[0].leave](std::size_t) {
      while (*leave == 0) use();
    });
  }
  ~RepeatedUse() { flag_[0].leave = 1; }
  RepeatedUse(const RepeatedUse&) = delete;
  RepeatedUse& operator=(const RepeatedUse&) = delete;

  void end() {
    flag_[0].leave = 1;
    WHERRY_TRY(session_.wait(0));
  }

 private:
  struct Flag {
    std::atomic<int> leave;
  };
  const Session& session_;
  const Managed<Flag> flag_{1};
};

void fill_on_device(const Session& session, const Managed<char>& memory, char value) {
  session.run(0, [start = memory.data(), count = memory.size(), value] {
    std::memset(start, value, count);
  });
  expect(Witness{}.residents(memory.data()) == device_bit, "not on the device");
}

std::vector<char> some_content() {
  std::vector<char> content(bytes);
  for (std::size_t i = 0; i < bytes; ++i) content[i] = static_cast<char>(i * 7 % 253);
  return content;
}

// A file, or both ends of a socket, as a source or a destination of contents.
struct Ends {
  int in = -1, out = -1;

  static Ends file() {
    const int fd = ::memfd_create("file", MFD_CLOEXEC);
    return {fd, fd};
  }
  static Ends sockets(int type) {
    int fds[2];
    expect(::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds) == 0, "socketpair");
    return {fds[0], fds[1]};
  }
  void close() const {
    ::close(in);
    if (out != in) ::close(out);
  }
};

struct Message : Pieces {
  Message(void* start, std::size_t count) : Pieces(start, count) {
    header.msg_iov = pieces;
    header.msg_iovlen = 2;
  }
  msghdr header{};
};

struct Getter {
  const char* name;
  ssize_t (*call)(const char* name, int fd, char* to);
};

ssize_t vector(const char* name, int fd, char* place) {
  return function<ssize_t(int, const iovec*, int)>(name)(fd, Pieces(place, bytes).pieces, 2);
}

constexpr Getter socket_getters[] = {
    {"read",
     [](const char* name, int fd, char* to) { return read_calls::plain(name, fd, to, bytes, 0); }},
    {"readv", vector},
    {"recv", [](const char* name, int fd,
                char* to) { return function<decltype(::recv)>(name)(fd, to, bytes, 0); }},
    {"__recv_chk",
     [](const char* name, int fd, char* to) {
       return function<ssize_t(int, void*, std::size_t, std::size_t, int)>(name)(fd, to, bytes,
                                                                                 bytes, 0);
     }},
    {"recvfrom",
     [](const char* name, int fd, char* to) {
       return function<ssize_t(int, void*, std::size_t, int, void*, socklen_t*)>(name)(
           fd, to, bytes, 0, nullptr, nullptr);
     }},
    {"__recvfrom_chk",
     [](const char* name, int fd, char* to) {
       return function<ssize_t(int, void*, std::size_t, std::size_t, int, void*, socklen_t*)>(name)(
           fd, to, bytes, bytes, 0, nullptr, nullptr);
     }},
    {"recvmsg",
     [](const char* name, int fd, char* to) {
       Message message(to, bytes);
       return function<decltype(::recvmsg)>(name)(fd, &message.header, 0);
     }},
};

struct Putter {
  const char* name;
  ssize_t (*call)(const char* name, int fd, char* from);
};
ssize_t vector_at(const char* name, int fd, char* from) {
  return function<ssize_t(int, const iovec*, int, off_t)>(name)(fd, Pieces(from, bytes).pieces, 2,
                                                                0);
}
ssize_t vector_at_flags(const char* name, int fd, char* from) {
  return function<ssize_t(int, const iovec*, int, off_t, int)>(name)(fd, Pieces(from, bytes).pieces,
                                                                     2, 0, 0);
}
ssize_t write_at(const char* name, int fd, char* from) {
  return function<ssize_t(int, const void*, std::size_t, off_t)>(name)(fd, from, bytes, 0);
}
ssize_t write_all(const char* name, int fd, char* from) {
  return function<ssize_t(int, const void*, std::size_t)>(name)(fd, from, bytes);
}
constexpr Putter file_putters[] = {
    {"write", write_all},          {"pwrite", write_at},
    {"pwrite64", write_at},        {"writev", vector},
    {"pwritev", vector_at},        {"pwritev64", vector_at},
    {"pwritev2", vector_at_flags}, {"pwritev64v2", vector_at_flags},
};
constexpr Putter socket_putters[] = {
    {"write", write_all},
    {"writev", vector},
    {"send", [](const char* name, int fd,
                char* from) { return function<decltype(::send)>(name)(fd, from, bytes, 0); }},
    {"sendto",
     [](const char* name, int fd, char* from) {
       return function<ssize_t(int, const void*, std::size_t, int, const void*, socklen_t)>(name)(
           fd, from, bytes, 0, nullptr, 0);
     }},
    {"sendmsg",
     [](const char* name, int fd, char* from) {
       const Message message(from, bytes);
       return function<decltype(::sendmsg)>(name)(fd, &message.header, 0);
     }},
};

// get(fd, to) reads into `to`.
template <typename Get>
void check_getter(const Session& session, const char* name, const Get& get, const Ends& ends) {
  const std::vector<char> content = some_content();
  const Managed<char> memory{bytes};
  fill_on_device(session, memory, 1);
  expect(::write(ends.out, content.data(), bytes) == whole, "content");
  if (ends.in == ends.out) ::lseek(ends.in, 0, SEEK_SET);
  errno = EDOM;
  const ssize_t got = get(ends.in, memory.data());
  const std::string what = std::string(name) + " returned " + std::to_string(got);
  expect(got == whole && errno == EDOM, what + ", errno " + std::to_string(errno));
  expect(std::memcmp(memory.data(), content.data(), bytes) == 0, what);
  ends.close();
}

void check_putter(const Session& session, const Putter& putter, const Ends& ends) {
  const Managed<char> memory{bytes};
  fill_on_device(session, memory, 9);
  errno = EDOM;
  const ssize_t put = putter.call(putter.name, ends.out, memory.data());
  const std::string what = std::string(putter.name) + " returned " + std::to_string(put);
  expect(put == whole && errno == EDOM, what + ", errno " + std::to_string(errno));
  if (ends.in == ends.out) ::lseek(ends.in, 0, SEEK_SET);
  std::vector<char> arrived(bytes);
  expect(::read(ends.in, arrived.data(), bytes) == whole, what);
  expect(std::count(arrived.begin(), arrived.end(), 9) == whole, what);
  ends.close();
}

TEST_CASE("every function that fills memory fills memory that is on a device", "[io]") {
  in_both_ways([](const Session& session) {
    for (const ReadFunction& getter : read_functions)
      check_getter(
          session, getter.name,
          [&](int fd, char* to) { return getter.call(getter.name, fd, to, bytes, 0); },
          Ends::file());
    for (const int type : {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET})
      for (const Getter& getter : socket_getters)
        check_getter(
            session, getter.name,
            [&](int fd, char* to) { return getter.call(getter.name, fd, to); },
            Ends::sockets(type));
  });
}

TEST_CASE("every function that reads memory reads memory that is on a device", "[io]") {
  in_both_ways([](const Session& session) {
    for (const Putter& putter : file_putters) check_putter(session, putter, Ends::file());
    for (const int type : {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET})
      for (const Putter& putter : socket_putters)
        check_putter(session, putter, Ends::sockets(type));
  });
}

TEST_CASE("without the library the same calls fail", "[io]") {
  const Outcome outcome = in_fresh_process([] {
    leave_user_mode_only_userfaultfd();
    const Session session("capacity=16M");
    const Managed<char> memory{bytes};
    fill_on_device(session, memory, 1);
    const Ends file = Ends::file();
    // Finds the C library's own syscall(), past that of libwherry_io.
    void* const c_library = ::dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    expect(c_library != nullptr, "the C library");
    const auto call = reinterpret_cast<long (*)(long, int, const void*, std::size_t)>(
        ::dlsym(c_library, "syscall"));
    expect(call(SYS_write, file.out, memory.data(), bytes) == -1 && errno == EFAULT, "write");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("syscall() finds memory that is on a device", "[io]") {
  in_both_ways([](const Session& session) {
    const Managed<char> memory{bytes};
    fill_on_device(session, memory, 9);
    const Ends file = Ends::file();
    expect(::syscall(SYS_write, file.out, memory.data(), bytes) == whole, "write");
    fill_on_device(session, memory, 3);
    expect(::syscall(SYS_pread64, file.in, memory.data(), bytes, 0) == whole, "pread64");
    expect(std::count(memory.data(), memory.data() + bytes, 9) == whole, "contents");
  });
}

TEST_CASE("large transfers of streams find memory that is on a device", "[io]") {
  in_both_ways([](const Session& session) {
    const Managed<char> memory{bytes};
    std::FILE* const file = std::tmpfile();
    fill_on_device(session, memory, 9);
    expect(std::fwrite(memory.data(), 1, bytes, file) == bytes, "fwrite");
    std::rewind(file);
    fill_on_device(session, memory, 3);
    // Asks for more than the file has.
    expect(std::fread(memory.data(), 100, bytes / 100 + 5, file) == bytes / 100, "fread");
    expect(std::feof(file) != 0, "feof");
    expect(std::count(memory.data(), memory.data() + bytes, 9) == whole, "contents");
    std::fclose(file);
  });
}

TEST_CASE("small objects and names may be on a device", "[io]") {
  in_both_ways([](const Session& session) {
    const Managed<char> memory{bytes};
    fill_on_device(session, memory, 0);
    // The memory is an empty name for open(), and the place for the answers of the other calls.
    expect(::open(memory.data(), O_RDONLY) == -1 && errno == ENOENT, "open");
    fill_on_device(session, memory, 0);
    expect(::fstat(0, reinterpret_cast<struct stat*>(memory.data())) == 0, "fstat");
    fill_on_device(session, memory, 0);
    expect(::pipe(reinterpret_cast<int*>(memory.data())) == 0, "pipe");
    fill_on_device(session, memory, 0);
    int status = 0;
    if (::fork() == 0) ::_exit(3);
    expect(::waitpid(-1, reinterpret_cast<int*>(memory.data()), 0) > 0, "waitpid");
    std::memcpy(&status, memory.data(), sizeof status);
    expect(WIFEXITED(status) && WEXITSTATUS(status) == 3, "status");
  });
}

// sendfile() sends first, and then stores the offset, in memory that a device has taken meanwhile.
TEST_CASE("a call that has acted before its result cannot be stored is not repeated", "[io]") {
  in_both_ways([](const Session& session) {
    constexpr std::size_t sent = 3000;
    const Ends file = Ends::file();
    const std::vector<char> content = some_content();
    expect(::write(file.out, content.data(), bytes) == whole, "content");
    std::array<int, 2> ends{};
    expect(::pipe2(ends.data(), O_CLOEXEC) == 0, "a pipe");
    std::vector<char> found(static_cast<std::size_t>(::fcntl(ends[1], F_GETPIPE_SZ)));
    expect(::write(ends[1], found.data(), found.size()) == static_cast<ssize_t>(found.size()),
           "a full pipe");

    const Managed<off_t> offset(1);
    offset[0] = 0;
    ssize_t result = 0;
    std::thread sending([&] { result = ::sendfile(ends[1], file.in, offset.data(), sent); });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    session.run(0, [place = const_cast<volatile off_t*>(offset.data())] { *place = *place; });
    expect(::read(ends[0], found.data(), found.size()) == static_cast<ssize_t>(found.size()),
           "a place in the pipe");
    sending.join();
    expect(result == sent && offset[0] == sent, "sendfile");
    expect(::read(ends[0], found.data(), found.size()) == sent &&
               std::memcmp(found.data(), content.data(), sent) == 0,
           "what was sent");
  });
}

TEST_CASE("pieces may be on a device, here, not created yet, or in ordinary memory", "[io]") {
  in_both_ways([](const Session& session) {
    const std::vector<char> content = some_content();
    const Ends file = Ends::file();
    expect(::write(file.out, content.data(), bytes) == whole, "content");
    constexpr std::size_t part = bytes / 4;
    const Managed<char> on_device{part}, here{part}, nowhere{part};
    std::vector<char> plain(part);
    const char* const places[] = {on_device.data(), here.data(), nowhere.data(), plain.data()};
    const auto prepare = [&] {
      fill_on_device(session, on_device, 1);
      std::memset(here.data(), 2, part);
    };
    // The array itself is on a device, too.
    const Managed<iovec> pieces(4);
    pieces[0] = {on_device.data(), part};
    pieces[1] = {here.data(), part};
    pieces[2] = {nowhere.data(), part};
    pieces[3] = {plain.data(), part};
    prepare();
    session.run(0, [array = pieces.data()] { array[0].iov_len = part; });
    expect(::preadv(file.in, pieces.data(), 4, 0) == whole, "preadv");
    for (std::size_t i = 0; i < 4; ++i)
      expect(std::memcmp(places[i], content.data() + i * part, part) == 0, "preadv's content");

    for (const int type : {SOCK_STREAM, SOCK_DGRAM}) {
      const Ends ends = Ends::sockets(type);
      prepare();
      expect(::write(ends.out, content.data(), bytes) == whole, "send");
      session.run(0, [array = pieces.data()] { array[0].iov_len = part; });
      expect(::readv(ends.in, pieces.data(), 4) == whole, "readv");
      for (std::size_t i = 0; i < 4; ++i)
        expect(std::memcmp(places[i], content.data() + i * part, part) == 0, "readv's content");
      ends.close();
    }
  });
}

TEST_CASE("invalid pointers are refused by Linux", "[io]") {
  in_both_ways([](const Session&) {
    const Ends file = Ends::file();
    const Ends sockets = Ends::sockets(SOCK_STREAM);
    expect(::write(file.out, "content", 7) == 7, "content");
    expect(::write(sockets.out, "content", 7) == 7, "content");
    Managed<char> memory{bytes};
    memory[0] = 1;
    char* const freed = memory.data();
    memory.free();
    const auto fails = [](ssize_t result, const char* what) {
      expect(result == -1 && errno == EFAULT, what);
    };
    const auto invalid = [](auto* place) {
      asm volatile("" : "+r"(place));  // compilers know that some pointers are invalid
      return place;
    };
    for (char* const place : {freed, reinterpret_cast<char*>(page_bytes)}) {
      fails(::pread(file.in, invalid(place), 4, 0), "pread");
      fails(::pwrite(file.out, invalid(place), 4, 0), "pwrite");
      fails(::recv(sockets.in, invalid(place), 4, 0), "recv");
      fails(::readv(file.in, reinterpret_cast<iovec*>(invalid(place)), 2), "readv");
      fails(::writev(file.out, reinterpret_cast<iovec*>(invalid(place)), 2), "writev");
      fails(::recvmsg(sockets.in, reinterpret_cast<msghdr*>(invalid(place)), 0), "recvmsg");
      fails(::sendmsg(sockets.in, reinterpret_cast<msghdr*>(invalid(place)), 0), "sendmsg");
    }
    char constant[] = "bytes";
    iovec piece{constant, 5};
    const volatile int negative = -1;
    expect(::readv(file.in, &piece, negative) == -1 && errno == EINVAL, "a negative count");
    expect(::writev(file.in, &piece, 0) == 0, "no pieces");
    expect(::read(-1, constant, 5) == -1 && errno == EBADF, "no descriptor");
    expect(::read(file.in, nullptr, 0) == 0, "no bytes");
  });
}

TEST_CASE("a call that may fill more than was allocated stops at the end of the allocation",
          "[io]") {
  in_both_ways([](const Session& session) {
    const Ends file = Ends::file();
    expect(::write(file.out, "content", 7) == 7, "content");
    const Managed<char> memory{page_bytes};
    fill_on_device(session, memory, 1);
    expect(::pread(file.in, memory.data(), std::size_t{1} << 30, 0) == 7, "a short file");
    expect(std::memcmp(memory.data(), "content", 7) == 0, "its content");
  });
}

// Waits until the thread of this process blocks in a call that waits for data, rather than in a
// fault before the call.
void wait_until_it_waits(pid_t thread) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  for (;;) {
    // The file has "running", or -1 during a fault, or the call's number.
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/syscall");
    int call = -1;
    if (file >> call &&
        (call == SYS_read || call == SYS_readv || call == SYS_recvfrom || call == SYS_recvmsg))
      return;
    expect(std::chrono::steady_clock::now() < limit, "the thread does not wait");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// get() waits for data that give() sends, while a device takes the memory away.
template <typename Get, typename Give>
ssize_t get_late(const Session& session, const Managed<char>& memory, const Get& get,
                 const Give& give) {
  std::atomic<pid_t> thread = 0;
  ssize_t got = 0;
  std::thread receiver([&] {
    thread = static_cast<pid_t>(::syscall(SYS_gettid));
    got = get();
  });
  while (thread == 0) std::this_thread::yield();
  try {
    wait_until_it_waits(thread);
    fill_on_device(session, memory, 1);
    give();
  } catch (...) {
    receiver.detach();  // the process ends soon
    throw;
  }
  receiver.join();
  return got;
}

TEST_CASE("data that can be received only once is not lost when its memory moves away meanwhile",
          "[io]") {
  in_both_ways([](const Session& session) {
    const Managed<char> memory{bytes};
    for (const int type : {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET}) {
      const Ends ends = Ends::sockets(type);
      for (const Getter& getter : socket_getters) {
        const std::string datagram = std::string("for ") + getter.name;
        const ssize_t got = get_late(
            session, memory, [&] { return getter.call(getter.name, ends.in, memory.data()); },
            [&] { expect(::send(ends.out, datagram.data(), datagram.size(), 0) > 0, "send"); });
        expect(std::string(memory.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))) ==
                   datagram,
               datagram + ": " + std::to_string(got));
        expect(memory[datagram.size()] == 1, "more was changed");
      }
      ends.close();
    }
    const int count = ::eventfd(0, EFD_CLOEXEC);
    const ssize_t got = get_late(
        session, memory, [&] { return ::read(count, memory.data(), 8); },
        [&] { expect(::eventfd_write(count, 77) == 0, "eventfd"); });
    expect(got == 8 && memory[0] == 77, "an eventfd's count");
  });
}

TEST_CASE("a thread that waits in a call can be cancelled", "[io]") {
  in_both_ways([](const Session&) {
    const Managed<char> memory{bytes};
    const Ends ends = Ends::sockets(SOCK_DGRAM);
    struct Work {
      char* memory;
      int fd;
      std::atomic<pid_t> thread = 0;
      std::atomic<bool> cleaned_up = false;
    } work{memory.data(), ends.in};
    pthread_t thread;
    const auto run = [](void* pointer) -> void* {
      Work& own = *static_cast<Work*>(pointer);
      struct CleanUp {
        Work& work;
        ~CleanUp() { work.cleaned_up = true; }
      } const clean_up{own};
      own.thread = static_cast<pid_t>(::syscall(SYS_gettid));
      [[maybe_unused]] const ssize_t got = ::recv(own.fd, own.memory, bytes, 0);
      return nullptr;
    };
    expect(::pthread_create(&thread, nullptr, run, &work) == 0, "a thread");
    while (work.thread == 0) std::this_thread::yield();
    wait_until_it_waits(work.thread);
    expect(::pthread_cancel(thread) == 0, "pthread_cancel");
    void* result = nullptr;
    expect(::pthread_join(thread, &result) == 0, "pthread_join");
    expect(result == PTHREAD_CANCELED && work.cleaned_up, "it was not cancelled");
  });
}

TEST_CASE("a datagram that is too long is truncated, and its length reported", "[io]") {
  in_both_ways([](const Session& session) {
    const Ends ends = Ends::sockets(SOCK_DGRAM);
    const Managed<char> memory{bytes};
    fill_on_device(session, memory, 1);
    expect(::send(ends.out, "a datagram", 10, 0) == 10, "send");
    expect(::recv(ends.in, memory.data(), 4, MSG_TRUNC | MSG_PEEK) == 10, "recv");
    expect(std::memcmp(memory.data(), "a da\1\1", 6) == 0, "recv's content");
    fill_on_device(session, memory, 1);
    Message message(memory.data(), 6);
    expect(::recvmsg(ends.in, &message.header, 0) == 6, "recvmsg");
    expect((message.header.msg_flags & MSG_TRUNC) != 0, "recvmsg's flags");
    expect(std::memcmp(memory.data(), "a data\1\1", 8) == 0, "recvmsg's content");
  });
}

TEST_CASE("a device that continuously takes the pages back does not make calls fail", "[io]") {
  in_both_ways([](const Session& session) {
    constexpr std::size_t pages = 8;
    constexpr std::size_t own = 64;  // the device's own bytes of each page
    constexpr std::size_t ours = page_bytes - own;
    const Managed<char> memory(pages * page_bytes);
    RepeatedUse device(session, [start = memory.data()] {
      for (std::size_t page = 0; page < pages; ++page)
        ++reinterpret_cast<std::atomic<std::uint64_t>&>(start[page * page_bytes]);
    });
    const std::vector<char> content = some_content();
    const Ends file = Ends::file();
    expect(::write(file.out, content.data(), bytes) == whole, "content");
    std::array<iovec, pages> pieces{};
    for (std::size_t page = 0; page < pages; ++page)
      pieces[page] = {memory.data() + page * page_bytes + own, ours};
    const auto expect_all = [&](const char* what, ssize_t done) {
      expect(done == pages * ours,
             what + (": " + std::to_string(done) + ", errno " + std::to_string(errno)));
    };
    const std::uint64_t rounds = scaled(100);
    for (std::uint64_t round = 0; round < rounds; ++round) {
      // Programs expect calls at an offset of a file to transfer all bytes. But Linux stops in the
      // middle of a page that leaves during the call.
      for (std::size_t page = 0; page < pages; ++page) std::memset(pieces[page].iov_base, 0, ours);
      expect_all("preadv", ::preadv(file.in, pieces.data(), pages, 0));
      for (std::size_t page = 0; page < pages; ++page)
        expect(std::memcmp(pieces[page].iov_base, content.data() + page * ours, ours) == 0,
               "its content");
      const Ends copy = Ends::file();
      expect_all("pwritev", ::pwritev(copy.out, pieces.data(), pages, 0));
      std::vector<char> written(pages * ours);
      expect_all("pread", ::pread(copy.in, written.data(), written.size(), 0));
      expect(std::equal(written.begin(), written.end(), content.begin()), "what was written");
      copy.close();
    }
    device.end();
  });
}

// Linux copies the file's first page, of which the last bytes go to the memory's second page. While
// it waits for the file's second page, that memory leaves. Programs expect all that the file has.
TEST_CASE("a read is whole if Linux stops in the middle of a page that has moved", "[io]") {
  with_slow_file([](const Session& session, SlowFile& file) {
    HeldRead held(session, file);
    for (const ReadFunction& read : read_functions) {
      const int fd = file.open(0);
      char first = 0;
      expect(::posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM) == 0 && ::pread(fd, &first, 1, 0) == 1,
             "the first page");
      constexpr std::size_t gap = 32;
      const auto fill = [&] {
        const auto got = read.call(read.name, fd, held.memory.data() + gap, HeldRead::bytes, 0);
        expect(got == HeldRead::bytes, read.name + (" returned " + std::to_string(got)));
        const off_t position = read.is_at_position ? HeldRead::bytes : 0;
        expect(::lseek(fd, 0, SEEK_CUR) == position, "the file's position");
      };
      held.check(read.name, fill, gap);
      ::close(fd);
    }
  });
}

TEST_CASE("a write to a file's greatest size is short, and raises no signal", "[io]") {
  in_both_ways([](const Session& session) {
    const Managed<char> memory{bytes};
    constexpr rlim_t limit = 2 * page_bytes + 100;
    const Ends file = Ends::file();
    const rlimit most{limit, RLIM_INFINITY};
    for (const int flags : {0, O_APPEND}) {
      fill_on_device(session, memory, 6);
      expect(::ftruncate(file.out, 0) == 0 && ::fcntl(file.out, F_SETFL, flags) == 0,
             "an empty file");
      expect(::setrlimit(RLIMIT_FSIZE, &most) == 0, "setrlimit");
      // SIGXFSZ ends the process.
      const ssize_t put = ::pwrite(file.out, memory.data(), bytes, 0);
      const rlimit none{RLIM_INFINITY, RLIM_INFINITY};
      expect(::setrlimit(RLIMIT_FSIZE, &none) == 0, "setrlimit");
      expect(put == limit, "pwrite returned " + std::to_string(put));
    }
  });
}

TEST_CASE("threads that read at one file's position read each record once, as a whole", "[io]") {
  in_both_ways([](const Session& session) {
    constexpr std::size_t record = 3 * page_bytes + 100;
    constexpr std::size_t gap = 32;  // Linux copies from the middle of a page to that of the next
    constexpr std::size_t room = 4 * page_bytes;
    constexpr std::size_t readers = 2;
    const std::size_t records = std::max<std::size_t>(200, scaled(4000));
    // Linux locks the position of a file with a name, and not that of a memory file.
    std::FILE* const named = std::tmpfile();
    expect(named != nullptr, "tmpfile");
    const Ends file{::fileno(named), ::fileno(named)};
    for (std::size_t i = 0; i < records; ++i) {
      const std::vector<std::size_t> words(record / sizeof i + 1, i);
      expect(::write(file.out, words.data(), record) == static_cast<ssize_t>(record), "a record");
    }
    ::lseek(file.in, 0, SEEK_SET);
    const Managed<char> memory{readers * room};
    RepeatedUse device(session, [start = memory.data()] {
      for (std::size_t at = 0; at < readers * room; at += page_bytes)
        (void)static_cast<const volatile char*>(start)[at];
    });
    std::vector<std::atomic<int>> times_read(records);
    std::atomic<int> wrong = 0;
    const auto read_all = [&](char* into) {
      for (;;) {
        const ssize_t got = ::read(file.in, into, record);
        if (got == 0) return;
        std::size_t index = 0;
        std::memcpy(&index, into, sizeof index);
        const std::vector<std::size_t> words(record / sizeof index + 1, index);
        if (got == static_cast<ssize_t>(record) && index < records &&
            std::memcmp(into, words.data(), record) == 0)
          ++times_read[index];
        else if (++wrong == 1)
          std::fprintf(stderr, "read returned %zd, errno %d\n", got, errno);
        if (got < 0) return;
      }
    };
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < readers; ++i)
      threads.emplace_back(read_all, memory.data() + i * room + gap);
    for (std::thread& thread : threads) thread.join();
    device.end();
    std::fclose(named);
    for (const std::atomic<int>& times : times_read) wrong += times != 1;
    expect(wrong == 0, std::to_string(wrong) + " records wrong or not read once");
  });
}

TEST_CASE("kernels call the same functions", "[io]") {
  in_both_ways([](const Session& session) {
    const Managed<char> memory{bytes}, back{bytes};
    const Managed<ssize_t> answers(2);
    std::memset(memory.data(), 6, bytes);
    session.run(0, [from = memory.data(), to = back.data(), answers = answers.data()] {
      const int file = ::memfd_create("in a device", MFD_CLOEXEC);
      answers[0] = ::pwrite(file, from, bytes, 0);
      answers[1] = ::pread(file, to, bytes, 0);
      ::close(file);
    });
    expect(answers[0] == whole && answers[1] == whole, "in a kernel");
    expect(std::count(back.data(), back.data() + bytes, 6) == whole, "what was read");
  });
}

TEST_CASE("a forked child makes system calls as usual", "[io]") {
  in_both_ways([](const Session&) {
    const Managed<char> memory{bytes};
    memory[0] = 1;
    Child child([&] {
      const Ends file = Ends::file();
      char byte = 3;
      expect(::write(file.out, &byte, 1) == 1 && ::pread(file.in, &byte, 1, 0) == 1, "own memory");
      // Managed memory is not inherited.
      expect(::pread(file.in, memory.data(), 1, 0) == -1 && errno == EFAULT, "managed memory");
    });
    const Outcome in_child = child.wait(20'000);
    expect(in_child.passed(), in_child.describe());
  });
}

}  // namespace
}  // namespace wherry::test::interposed_test
