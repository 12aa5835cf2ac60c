// What Linux reads and writes by itself, or by raw system calls, in pinned memory: io_uring and
// libaio, also with buffers that are registered, and raw direct reads. A slow file answers when a
// device has used the memory, so that Linux is known to hold the pages meanwhile.
#include <fcntl.h>
#include <liburing.h>
#include <linux/aio_abi.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "io/both_ways.h"
#include "io/slow_file.h"
#include "support/catch.h"
#include "support/conditions.h"
#include "support/session.h"

namespace wherry::test::pinned_io_test {
namespace {

constexpr std::size_t page_bytes = 4096;
constexpr std::size_t bytes = 8 * page_bytes;
constexpr auto whole = static_cast<int>(bytes);

// Pinned memory, with pages before and after it that are not pinned.
class PinnedMemory {
 public:
  PinnedMemory() {
    std::memset(around_.data(), 1, around_.size());
    WHERRY_TRY(wherryPinPages(reinterpret_cast<CUdeviceptr>(data()), bytes));
    WHERRY_TRY(wherryTouchPages(data(), bytes, WHERRY_TOUCH_WRITE));
  }
  char* data() const { return around_.data() + page_bytes; }
  // A device uses the pinned pages, and takes those around them.
  void use_on_device(const Session& session) const {
    session.run(0, [start = around_.data()] {
      for (std::size_t at = 0; at < bytes + 2 * page_bytes; at += page_bytes) ++start[at + 1];
    });
  }
  void clear() const { std::memset(data(), 1, bytes); }

 private:
  const Managed<char> around_{bytes + 2 * page_bytes};
};

void in_both_ways(const std::function<void()>& body) {
  test::in_both_ways(body, 60'000);
}

// One way to read `bytes` bytes at the start of a file, or to write them.
struct Way {
  std::string name;
  std::function<int(int fd, char* memory)> make;
};

class Ring {
 public:
  // The ring does not exist where io_uring is forbidden.
  explicit Ring(char* registered) : exists_(::io_uring_queue_init(4, &ring_, 0) == 0) {
    const iovec buffer{registered, bytes};
    if (!exists_)
      std::printf("no io_uring\n");
    else
      expect(::io_uring_register_buffers(&ring_, &buffer, 1) == 0, "io_uring_register_buffers");
  }
  ~Ring() {
    if (exists_) ::io_uring_queue_exit(&ring_);
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  bool exists() const { return exists_; }
  template <typename Prepare>
  int run(const Prepare& prepare) {
    prepare(::io_uring_get_sqe(&ring_));
    io_uring_cqe* done = nullptr;
    expect(::io_uring_submit_and_wait(&ring_, 1) == 1 && ::io_uring_peek_cqe(&ring_, &done) == 0,
           "io_uring");
    const int result = done->res;
    ::io_uring_cqe_seen(&ring_, done);
    return result;
  }

 private:
  io_uring ring_{};
  const bool exists_;
};

int run_aio(std::uint16_t operation, int fd, char* memory) {
  aio_context_t context = 0;
  expect(::syscall(SYS_io_setup, 4, &context) == 0, "io_setup");
  iocb request{};
  request.aio_lio_opcode = operation;
  request.aio_fildes = static_cast<std::uint32_t>(fd);
  request.aio_buf = reinterpret_cast<std::uint64_t>(memory);
  request.aio_nbytes = bytes;
  iocb* const requests[] = {&request};
  io_event event{};
  expect(::syscall(SYS_io_submit, context, 1, requests) == 1 &&
             ::syscall(SYS_io_getevents, context, 1, 1, &event, nullptr) == 1,
         "aio");
  ::syscall(SYS_io_destroy, context);
  return static_cast<int>(event.res);
}

std::vector<Way> ways_to_read(Ring& ring) {
  std::vector<Way> ways{
      {"a raw pread",
       [](int fd, char* memory) {
         return static_cast<int>(::syscall(SYS_pread64, fd, memory, bytes, 0));
       }},
      {"libaio", [](int fd, char* memory) { return run_aio(IOCB_CMD_PREAD, fd, memory); }}};
  if (!ring.exists()) return ways;
  ways.push_back({"io_uring", [&ring](int fd, char* memory) {
                    return ring.run(
                        [&](io_uring_sqe* to) { ::io_uring_prep_read(to, fd, memory, bytes, 0); });
                  }});
  ways.push_back({"io_uring, registered", [&ring](int fd, char* memory) {
                    return ring.run([&](io_uring_sqe* to) {
                      ::io_uring_prep_read_fixed(to, fd, memory, bytes, 0, 0);
                    });
                  }});
  return ways;
}
std::vector<Way> ways_to_write(Ring& ring) {
  std::vector<Way> ways{
      {"a raw pwrite",
       [](int fd, char* memory) {
         return static_cast<int>(::syscall(SYS_pwrite64, fd, memory, bytes, 0));
       }},
      {"libaio", [](int fd, char* memory) { return run_aio(IOCB_CMD_PWRITE, fd, memory); }}};
  if (!ring.exists()) return ways;
  ways.push_back({"io_uring", [&ring](int fd, char* memory) {
                    return ring.run(
                        [&](io_uring_sqe* to) { ::io_uring_prep_write(to, fd, memory, bytes, 0); });
                  }});
  ways.push_back({"io_uring, registered", [&ring](int fd, char* memory) {
                    return ring.run([&](io_uring_sqe* to) {
                      ::io_uring_prep_write_fixed(to, fd, memory, bytes, 0, 0);
                    });
                  }});
  return ways;
}

TEST_CASE("what Linux reads into pinned memory arrives, whatever a device does meanwhile", "[io]") {
  in_both_ways([] {
    const auto file = SlowFile::make(bytes);
    if (file == nullptr) return;
    const Session session("capacity=16M");
    const PinnedMemory memory;
    Ring ring(memory.data());
    const int fd = file->open(O_DIRECT);
    for (const Way& way : ways_to_read(ring)) {
      memory.clear();
      file->hold();
      int result = 0;
      std::thread reader([&] { result = way.make(fd, memory.data()); });
      try {
        expect(file->is_read(), way.name + ": nobody reads");
        memory.use_on_device(session);
      } catch (...) {
        reader.detach();  // the process ends soon
        throw;
      }
      file->release();
      reader.join();
      expect(result == whole, way.name + " returned " + std::to_string(result));
      for (std::size_t i = 0; i < bytes; ++i)
        expect(memory.data()[i] == SlowFile::byte_at(i), way.name + ": data was lost");
    }
    ::close(fd);
  });
}

TEST_CASE("what Linux writes from pinned memory is what the memory holds", "[io]") {
  in_both_ways([] {
    const Session session("capacity=16M");
    const PinnedMemory memory;
    Ring ring(memory.data());
    char path[] = "/var/tmp/wherry_pinned_io_XXXXXX";
    ::close(::mkstemp(path));
    const int fd = ::open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
    const int check = ::open(path, O_RDONLY | O_CLOEXEC);
    ::unlink(path);
    expect(fd >= 0 && check >= 0, "the file system of /var/tmp has no O_DIRECT");
    std::vector<char> written(bytes);
    const std::uint64_t rounds = scaled(20);
    for (const Way& way : ways_to_write(ring))
      for (std::uint64_t round = 0; round < rounds; ++round) {
        std::memset(memory.data(), static_cast<int>(round + 2), bytes);
        // The device changes what is written, so that the right content is not in the host's pool
        // by chance.
        memory.use_on_device(session);
        const int result = way.make(fd, memory.data());
        expect(result == whole, way.name + " returned " + std::to_string(result));
        expect(::pread(check, written.data(), bytes, 0) == whole, "pread");
        expect(std::memcmp(written.data(), memory.data(), bytes) == 0, way.name + ": wrong data");
      }
  });
}

}  // namespace
}  // namespace wherry::test::pinned_io_test
