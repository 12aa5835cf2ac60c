// Real transfers of a disk, a pipe and another process, at full speed, beside kernels and
// prefetches that move the same pages. held_test forces each overlap; here many happen by chance,
// such as a call that holds one page while it waits for the next.
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "held/holders.h"
#include "held/places.h"
#include "support/capabilities.h"
#include "support/catch.h"
#include "support/child.h"
#include "support/conditions.h"
#include "support/stage.h"

namespace wherry::test::beside_test {
namespace {

constexpr std::size_t bytes = std::size_t{16} << 20;
constexpr std::size_t words = bytes / sizeof(std::uint64_t);
constexpr std::size_t pages = bytes / page_bytes;
// The most bytes of one system call. Where faults inside system calls are not answered, all pages
// must stay at the host from the touch to the call: a smaller piece is more likely to.
constexpr std::size_t piece_max = std::size_t{2} << 20;
constexpr std::size_t unserved_piece_max = std::size_t{64} << 10;
constexpr int attempts_max = 1000;
constexpr std::size_t region_pages_half = region_bytes / page_bytes / 2;
constexpr int limit_ms = 200'000;

// The memory, an equally long piece of ordinary memory, and a device that works beside the test.
class Setting {
 public:
  Setting() : served_(serves_system_calls()), session_("workers=2"), memory_(words) { fill(1); }
  ~Setting() { stop(); }

  std::uint64_t* memory() const { return memory_.data(); }
  std::uint64_t* ordinary() const { return ordinary_.get(); }
  void fill(std::uint64_t salt) {
    for (std::size_t i = 0; i < words; ++i) memory()[i] = value_at(memory() + i, salt);
  }

  // Repeats the work on a thread until stop().
  void beside(std::function<void()> work) {
    thread_ = std::thread([this, work = std::move(work)] {
      try {
        WHERRY_TRY(cuCtxSetCurrent(session_.context(0)));
        while (!stops_) {
          work();
          ++rounds_;
        }
      } catch (const std::exception& error) {
        failure_ = error.what();
      }
    });
  }
  void stop() {
    stops_ = true;
    if (thread_.joinable()) thread_.join();
  }
  // Throws if the work beside has failed, or has not run.
  void finish() {
    stop();
    expect(failure_.empty(), failure_);
    expect(rounds_ > 0, "nothing happened beside the transfers");
  }

  void read_by_kernel() const {
    session_.launch(0, pages, [first = memory()](std::size_t i) {
      (void)*const_cast<volatile std::uint64_t*>(first + i * page_words);
    });
    WHERRY_TRY(session_.wait(0));
  }
  // Writes to the second half of each region, the 16 pages that a fault brings.
  void write_by_kernel() const {
    session_.launch(0, pages, [first = memory()](std::size_t i) {
      if (i / region_pages_half % 2 != 0) first[i * page_words + 1] += 1;
    });
    WHERRY_TRY(session_.wait(0));
  }
  void prefetch(int to) const {
    WHERRY_TRY(cuMemPrefetchAsync(address_of(memory()), bytes, location_of(to), 0, nullptr));
    WHERRY_TRY(cuStreamSynchronize(nullptr));
  }

  void read_by_host() const {
    for (std::size_t i = 0; i < words; i += page_words)
      (void)*const_cast<volatile std::uint64_t*>(memory() + i);
  }
  // Prefetches 40 pages of each MiB, some of which are among those that keep_in_pipe() holds.
  void prefetch_parts(int to, std::uint64_t round) const {
    constexpr std::size_t step = std::size_t{1} << 20;
    const std::size_t first = 90 + round % 20;
    for (std::size_t at = first * page_bytes; at + step / 2 < bytes; at += step)
      WHERRY_TRY(cuMemPrefetchAsync(address_of(memory()) + at, 40 * page_bytes, location_of(to), 0,
                                    nullptr));
    WHERRY_TRY(cuStreamSynchronize(nullptr));
  }

  // Makes a call like pwrite() until it has transferred all, as docs/system-calls.md says.
  template <typename Call>
  void transfer(std::size_t first_byte, std::size_t count, unsigned touch, const Call& call) const {
    auto* const start = reinterpret_cast<std::byte*>(memory()) + first_byte;
    int attempts = 0;
    for (std::size_t at = 0; at < count;) {
      const std::size_t piece = std::min(count - at, served_ ? piece_max : unserved_piece_max);
      if (!served_) WHERRY_TRY(wherryTouchPages(start + at, piece, touch));
      const ssize_t got = call(start + at, piece, first_byte + at);
      if (got > 0) {
        at += static_cast<std::size_t>(got);
        attempts = 0;
      } else {
        expect(got < 0 && errno == EFAULT && !served_ && ++attempts < attempts_max,
               "the call returns " + std::to_string(got) + ", errno " + std::to_string(errno));
      }
    }
  }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };

  const bool served_;
  const Session session_;
  const Words memory_;
  const std::unique_ptr<std::uint64_t[], Free> ordinary_{
      static_cast<std::uint64_t*>(std::aligned_alloc(page_bytes, bytes))};
  std::thread thread_;
  std::atomic<bool> stops_ = false;
  std::atomic<int> rounds_ = 0;
  std::string failure_;
};

void expect_right(const Comparison& seen, const char* what) {
  expect(seen.wrong == 0, std::string{what} + ": " + std::to_string(seen.wrong) + " of " +
                              std::to_string(seen.compared) + " words wrong, " +
                              std::to_string(seen.zeros) + " of them zero");
}

// A folder whose file system has direct I/O, or nothing if there is none.
std::optional<std::string> direct_folder() {
  const char* const chosen = std::getenv("TMPDIR");
  const std::string folder = chosen != nullptr ? chosen : "/var/tmp";
  struct statfs system {};
  if (::statfs(folder.c_str(), &system) != 0 || system.f_type == TMPFS_MAGIC) return {};
  const int file = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600);
  if (file < 0) return {};
  ::close(file);
  return folder;
}
int open_direct_file() {
  return ::open(direct_folder().value().c_str(), O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600);
}

// A pipe holds some pages of each block, because nobody reads it for a long time.
void keep_in_pipe() {
  constexpr std::size_t step = std::size_t{1} << 20;
  constexpr std::size_t part = std::size_t{64} << 10;
  constexpr std::size_t offset = 100 * page_bytes;
  constexpr std::chrono::seconds wait_limit{8};
  Setting setting;
  std::array<int, 2> ends{};
  expect(::pipe2(ends.data(), O_CLOEXEC) == 0, "pipe2");
  expect(::fcntl(ends[1], F_SETPIPE_SZ, static_cast<int>(bytes / step * part)) >= 0,
         "F_SETPIPE_SZ");
  setting.prefetch(device0);  // as huge pages
  setting.prefetch(host);
  for (std::size_t at = offset; at < bytes; at += step)
    setting.transfer(at, part, WHERRY_TOUCH_READ,
                     [&](std::byte* from, std::size_t count, std::size_t) {
                       const iovec piece{from, count};
                       return ::vmsplice(ends[1], &piece, 1, SPLICE_F_NONBLOCK);
                     });
  const auto in_time = [&](const char* what, const std::function<void()>& work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    expect(std::chrono::steady_clock::now() - begin < wait_limit,
           std::string{what} + " waits for the pipe");
  };
  for (std::uint64_t round = 0; round < scaled(100); ++round) {
    in_time("a kernel", [&] { setting.read_by_kernel(); });
    in_time("the host", [&] { setting.read_by_host(); });
    in_time("a prefetch of parts", [&] { setting.prefetch_parts(device0, round); });
    in_time("the host", [&] { setting.read_by_host(); });
    in_time("a prefetch", [&] { setting.prefetch(device0); });
    in_time("a prefetch of parts", [&] { setting.prefetch_parts(host, round); });
    in_time("a prefetch", [&] { setting.prefetch(host); });
  }
  Comparison seen;
  seen.add(setting.memory(), setting.memory(), words, 1);
  expect_right(seen, "the memory");
  for (std::size_t at = offset; at < bytes; at += step) {
    for (std::size_t done = 0; done < part;) {
      const ssize_t got =
          ::read(ends[0], reinterpret_cast<std::byte*>(setting.ordinary()) + done, part - done);
      expect(got > 0, "read of a pipe");
      done += static_cast<std::size_t>(got);
    }
    Comparison in_pipe;
    in_pipe.add(setting.ordinary(), setting.memory() + at / sizeof(std::uint64_t),
                part / sizeof(std::uint64_t), 1);
    expect_right(in_pipe, "the pipe");
  }
}

// Runs `body` in a process of its own, and checks how the process ends and what it writes.
void check_in_process(const std::function<void()>& body) {
  const Outcome outcome = in_fresh_process(body, limit_ms);
  INFO(outcome.describe());
  CHECK(outcome.passed());
  // Only a defect makes the library write this message.
  CHECK(outcome.err.find("never came free") == std::string::npos);
}

void write_to_disk() {
  Setting setting;
  const int file = open_direct_file();
  setting.beside([&] { setting.read_by_kernel(); });
  for (std::uint64_t round = 0; round < scaled(100); ++round) {
    setting.transfer(0, bytes, WHERRY_TOUCH_READ,
                     [&](const std::byte* from, std::size_t count, std::size_t offset) {
                       return ::pwrite(file, from, count, static_cast<off_t>(offset));
                     });
    expect(::pread(file, setting.ordinary(), bytes, 0) == ssize_t{bytes}, "pread");
    Comparison seen;
    seen.add(setting.ordinary(), setting.memory(), words, 1);
    expect_right(seen, "the file");
  }
  setting.finish();
}

void read_from_disk() {
  constexpr std::size_t step = region_bytes;
  constexpr std::size_t part = region_pages_half * page_bytes;
  constexpr std::size_t part_words = part / sizeof(std::uint64_t);
  Setting setting;
  const int file = open_direct_file();
  setting.beside([&] { setting.write_by_kernel(); });
  for (std::uint64_t round = 0; round < scaled(100); ++round) {
    const std::uint64_t salt = 2 + round;
    for (std::size_t i = 0; i < words; ++i)
      setting.ordinary()[i] = value_at(setting.memory() + i, salt);
    expect(::pwrite(file, setting.ordinary(), bytes, 0) == ssize_t{bytes}, "pwrite");
    for (std::size_t at = 0; at < bytes; at += step)
      setting.transfer(at, part, WHERRY_TOUCH_WRITE,
                       [&](std::byte* into, std::size_t count, std::size_t offset) {
                         return ::pread(file, into, count, static_cast<off_t>(offset));
                       });
    Comparison seen;
    for (std::size_t i = 0; i < words; i += step / sizeof(std::uint64_t))
      seen.add(setting.memory() + i, setting.memory() + i, part_words, salt);
    expect_right(seen, "the memory");
  }
  setting.finish();
}

void give_to_pipe() {
  constexpr std::size_t part = std::size_t{1} << 20;
  Setting setting;
  std::array<int, 2> ends{};
  expect(::pipe2(ends.data(), O_CLOEXEC) == 0, "pipe2");
  expect(::fcntl(ends[1], F_SETPIPE_SZ, static_cast<int>(part)) >= 0, "F_SETPIPE_SZ");
  for (std::uint64_t round = 0; round < scaled(1000); ++round) {
    setting.prefetch(host);
    const std::size_t first = round * 3 % 13 * (std::size_t{64} << 10);
    std::size_t given = 0;
    setting.transfer(first, part, WHERRY_TOUCH_READ,
                     [&](std::byte* from, std::size_t count, std::size_t) {
                       const iovec piece{from, count};
                       const ssize_t got = ::vmsplice(ends[1], &piece, 1, SPLICE_F_NONBLOCK);
                       if (got > 0) given += static_cast<std::size_t>(got);
                       return got;
                     });
    setting.read_by_kernel();
    for (std::size_t at = 0; at < given;) {
      const ssize_t got =
          ::read(ends[0], reinterpret_cast<std::byte*>(setting.ordinary()) + at, given - at);
      expect(got > 0, "read of a pipe");
      at += static_cast<std::size_t>(got);
    }
    Comparison seen;
    seen.add(setting.ordinary(), setting.memory() + first / sizeof(std::uint64_t),
             part / sizeof(std::uint64_t), 1);
    expect_right(seen, "the pipe");
  }
}

void read_by_peer() {
  auto* const seen = static_cast<Comparison*>(map_shared(sizeof(Comparison)));
  const bool served = serves_system_calls();
  const Peer peer;
  Setting setting;
  setting.beside([&] {
    setting.prefetch(device0);
    setting.prefetch(host);
  });
  for (std::uint64_t round = 0; round < scaled(200); ++round) {
    const auto read = [memory = setting.memory(), pid = ::getpid(), seen] {
      static std::uint64_t* const local = new std::uint64_t[words];
      *seen = {};
      for (std::size_t at = 0; at < words;) {
        const iovec into{local, (words - at) * sizeof *local};
        const iovec from{memory + at, into.iov_len};
        const ssize_t got = ::process_vm_readv(pid, &into, 1, &from, 1, 0);
        expect(got > 0 || errno == EFAULT, "process_vm_readv");
        const std::size_t count = got > 0 ? static_cast<std::size_t>(got) / sizeof *local : 0;
        seen->add(local, memory + at, count, 1);
        at += count == 0 ? page_words : count;  // EFAULT: goes on behind the page
      }
    };
    peer.run(read);
    expect_right(*seen, "the peer");
    expect(!served || seen->compared == words, "the peer gets EFAULT");
  }
  setting.finish();
}

}  // namespace

TEST_CASE("what is written to a disk is right while kernels read the memory", "[held]") {
  if (!direct_folder()) {
    WARN("skipped: no file system with direct I/O");
    return;
  }
  check_in_process(write_to_disk);
}

TEST_CASE("what is read from a disk is right while kernels use other pages", "[held]") {
  if (!direct_folder()) {
    WARN("skipped: no file system with direct I/O");
    return;
  }
  check_in_process(read_from_disk);
}

TEST_CASE("what is given to a pipe is right after kernels have read the memory", "[held]") {
  check_in_process(give_to_pipe);
}

TEST_CASE("a pipe that nobody reads keeps its contents, and nothing waits for it", "[held]") {
  check_in_process(keep_in_pipe);
}

TEST_CASE("what another process reads is right while prefetches move the memory", "[held]") {
  check_in_process(read_by_peer);
}

}  // namespace wherry::test::beside_test
