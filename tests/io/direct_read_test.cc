// Reads with O_DIRECT into managed memory, in a program that is linked with the library and sets
// nothing. No byte is lost if pages move during a read, nobody waits for the read, and for the rest
// each call does what it does with ordinary memory. Everything runs twice: with what this machine
// allows, and with userfaultfd for user mode only.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "io/both_ways.h"
#include "io/held_read.h"
#include "io/read_functions.h"
#include "support/capabilities.h"
#include "support/catch.h"
#include "support/child.h"
#include "support/conditions.h"
#include "support/session.h"
#include "support/waiting.h"

namespace wherry::test::direct_read_test {
namespace {

constexpr std::size_t page_bytes = 4096;
constexpr std::size_t mib = 1 << 20;

char byte_at(std::size_t offset) {
  return SlowFile::byte_at(offset);
}
bool has_content(const char* memory, std::size_t bytes, std::size_t offset) {
  return SlowFile::has_content(memory, bytes, offset);
}

// A file for direct reads, with the same content.
class DirectFile {
 public:
  explicit DirectFile(std::size_t bytes) {
    char path[] = "/var/tmp/wherry_direct_read_XXXXXX";
    const int file = ::mkstemp(path);
    expect(file >= 0, "mkstemp");
    std::vector<char> content(bytes);
    for (std::size_t i = 0; i < bytes; ++i) content[i] = byte_at(i);
    expect(::write(file, content.data(), bytes) == static_cast<ssize_t>(bytes), "content");
    ::close(file);
    fd_ = ::open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
    ::unlink(path);
    expect(fd_ >= 0, "the file system of /var/tmp has no O_DIRECT");
  }
  ~DirectFile() { ::close(fd_); }
  DirectFile(const DirectFile&) = delete;
  DirectFile& operator=(const DirectFile&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_ = -1;
};

// Memory that is not managed, aligned to pages.
struct Ordinary {
  explicit Ordinary(std::size_t count)
      : bytes(count), data(static_cast<char*>(std::aligned_alloc(page_bytes, count)), std::free) {
    std::memset(data.get(), 1, count);
  }
  std::size_t bytes;
  std::unique_ptr<char, void (*)(void*)> data;
};

// What a call did.
struct Result {
  ssize_t returned;
  int error;
  off_t position;
  std::string describe() const {
    return std::to_string(returned) + ", errno " + std::to_string(error) + ", position " +
           std::to_string(position);
  }
  bool operator==(const Result&) const = default;
};
Result result_of(int fd, off_t position, const std::function<ssize_t()>& call) {
  ::lseek(fd, position, SEEK_SET);
  errno = EDOM;
  const ssize_t returned = call();
  const int error = errno;
  return {returned, error, ::lseek(fd, 0, SEEK_CUR)};
}

TEST_CASE("no byte of a direct read is lost if its pages move meanwhile", "[io]") {
  with_slow_file([](const Session& session, SlowFile& file) {
    HeldRead held(session, file);
    const int fd = file.open(O_DIRECT);
    for (const ReadFunction& read : read_functions)
      held.check(read.name, [&] {
        const Result result = result_of(fd, 0, [&] {
          return read.call(read.name, fd, held.memory.data(), HeldRead::bytes, 0);
        });
        const auto whole = static_cast<off_t>(HeldRead::bytes);
        expect(result == Result{whole, EDOM, read.is_at_position ? whole : 0},
               read.name + (" returned " + result.describe()));
      });
    ::close(fd);
  });
}

// Without the wrapper data is lost, so the cases here show something.
TEST_CASE("a direct read by a raw system call loses what arrives after its pages have moved",
          "[io]") {
  const Outcome outcome = in_fresh_process([] {
    const auto file = SlowFile::make(HeldRead::bytes);
    if (file == nullptr) return;
    const Session session("capacity=16M");
    HeldRead held(session, *file);
    const int fd = file->open(O_DIRECT);
    bool is_lost = false;
    try {
      held.check("raw", [&] {
        (void)!::syscall(SYS_pread64, fd, held.memory.data(), HeldRead::bytes, 0);
      });
    } catch (const std::runtime_error& error) {
      is_lost = std::string(error.what()) == "raw: data was lost";
    }
    expect(is_lost, "nothing was lost");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

char* read_in_handler_into = nullptr;
int read_in_handler_from = -1;
std::atomic<ssize_t> read_in_handler = 0;

TEST_CASE("no byte is lost in a signal handler and in a child of vfork", "[io]") {
  with_slow_file([](const Session& session, SlowFile& file) {
    HeldRead held(session, file);
    const int fd = file.open(O_DIRECT);
    constexpr auto whole = static_cast<ssize_t>(HeldRead::bytes);
    read_in_handler_into = held.memory.data();
    read_in_handler_from = fd;
    struct sigaction action {};
    action.sa_handler = [](int) {
      read_in_handler = ::pread(read_in_handler_from, read_in_handler_into, HeldRead::bytes, 0);
    };
    expect(::sigaction(SIGUSR1, &action, nullptr) == 0, "sigaction");
    held.check("in a handler", [] { ::raise(SIGUSR1); });
    expect(read_in_handler == whole, "in a handler");
    held.check("in a child of vfork", [&] {
      const pid_t child = ::vfork();
      if (child == 0) ::_exit(::pread(fd, held.memory.data(), HeldRead::bytes, 0) == whole ? 0 : 1);
      int status = -1;
      expect(child > 0 && ::waitpid(child, &status, 0) == child && status == 0, "vfork");
    });
    ::close(fd);
  });
}

TEST_CASE("no byte of a kernel's direct read is lost if the host takes its pages", "[io]") {
  with_slow_file([](const Session& session, SlowFile& file) {
    const Managed<char> memory{HeldRead::bytes};
    const Managed<ssize_t> answer(1);
    struct Path {
      char text[64];
    } path{};
    std::strncpy(path.text, file.path().c_str(), sizeof path.text - 1);
    session.run(0, [start = memory.data()] { std::memset(start, 1, HeldRead::bytes); });
    file.hold();
    session.launch(0, 1, [path, to = memory.data(), got = answer.data()](std::size_t) {
      const int fd = ::open(path.text, O_RDONLY | O_CLOEXEC | O_DIRECT);
      *got = ::pread(fd, to, HeldRead::bytes, 0);
      ::close(fd);
    });
    expect(file.is_read(), "the kernel does not read");
    for (std::size_t i = 0; i < HeldRead::bytes; i += page_bytes) memory[i] = 3;
    file.release();
    WHERRY_TRY(session.wait(0));
    expect(answer[0] == static_cast<ssize_t>(HeldRead::bytes), "returned a short count");
    expect(has_content(memory.data(), HeldRead::bytes, 0), "data was lost");
  });
}

TEST_CASE("no byte that a program writes to itself with process_vm_writev is lost", "[io]") {
  with_slow_file([](const Session& session, SlowFile& file) {
    HeldRead held(session, file);
    const int fd = file.open(0);
    for (const bool by_thread : {false, true})
      held.check("process_vm_writev", [&] {
        // The source is a mapping of the slow file, so Linux waits for its data after it has found
        // the destination. The pages of a shared mapping would stay in the page cache.
        void* const mapping = ::mmap(nullptr, HeldRead::bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        expect(mapping != MAP_FAILED, "mmap");
        const iovec from{mapping, HeldRead::bytes};
        const Pieces to(held.memory.data(), HeldRead::bytes);
        const pid_t self = by_thread ? ::gettid() : ::getpid();
        errno = EDOM;
        const Result result{::process_vm_writev(self, &from, 1, to.pieces, 2, 0), errno, 0};
        expect(result == Result{HeldRead::bytes, EDOM, 0},
               "process_vm_writev returned " + result.describe());
        ::munmap(mapping, HeldRead::bytes);
        ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
      });
    ::close(fd);
  });
}

TEST_CASE("direct reads of all lengths, places and offsets do what they do with ordinary memory",
          "[io]") {
  in_both_ways([] {
    constexpr std::size_t file_bytes = 3 * mib + 1000;
    constexpr std::size_t memory_bytes = 5 * mib;
    const DirectFile file(file_bytes);
    const Session session("capacity=64M");
    const Managed<char> managed{memory_bytes};
    Ordinary ordinary(memory_bytes);
    const std::size_t lengths[] = {0,       100,           512,     4096,          mib,
                                   mib + 1, mib + 4 * 512, 2 * mib, 3 * mib + 512, 3 * mib + 100,
                                   4 * mib};
    const off_t offsets[] = {0, 512, 100, -1, 2 * mib, 3 * mib, 3 * mib + 512, 4 * mib};
    std::mt19937_64 random(seed());
    for (const std::size_t length : lengths)
      for (const off_t offset : offsets)
        for (const std::size_t place : {0, 512, 64, 1})
          for (const ReadFunction& read : read_functions) {
            if (std::uniform_real_distribution<>()(random) > scale()) continue;
            if (length != 4096 && read.name[0] == '_') continue;  // differs in a check only
            const off_t position = std::max<off_t>(offset, 0);
            const auto into = [&](char* start) {
              return result_of(file.fd(), position, [&] {
                return read.call(read.name, file.fd(), start + place, length, offset);
              });
            };
            const Result expected = into(ordinary.data.get());
            std::memset(managed.data(), 1, memory_bytes > length ? length + page_bytes : length);
            const Result found = into(managed.data());
            const std::string what = std::string(read.name) + " of " + std::to_string(length) +
                                     " at " + std::to_string(offset) + " into " +
                                     std::to_string(place) + ": ";
            expect(found == expected,
                   what + found.describe() + "; ordinary: " + expected.describe());
            const auto got = static_cast<std::size_t>(std::max<ssize_t>(found.returned, 0));
            expect(has_content(managed.data() + place, got, static_cast<std::size_t>(position)),
                   what + "content");
            expect(managed[place + got] == 1, what + "more was changed");
          }
  });
}

TEST_CASE("pieces of a direct read may be in any memory, with any alignment", "[io]") {
  in_both_ways([] {
    constexpr std::size_t file_bytes = 4 * mib;
    constexpr std::size_t part = 2 * mib;
    const DirectFile file(file_bytes);
    const Session session("capacity=64M");
    const Managed<char> managed{part}, more{part};
    Ordinary ordinary(part), further(part);
    const auto place = [&](bool is_managed, int which) {
      if (which == 0) return is_managed ? managed.data() : ordinary.data.get();
      return is_managed ? more.data() : further.data.get();
    };
    // Lengths and places of two pieces; a third piece is ordinary memory.
    struct Shape {
      std::size_t bytes[2];
      std::size_t at[2];
    };
    const Shape shapes[] = {
        {{4096, 8192}, {0, 4096}},   {{mib, mib}, {0, 0}},       {{4096, mib + 4096}, {0, 512}},
        {{2 * mib, 512}, {0, 0}},    {{mib + 512, 512}, {0, 0}}, {{mib, mib}, {0, 1}},
        {{mib + 4096, 100}, {0, 0}}, {{0, 2 * mib}, {3, 0}},     {{512, 2 * mib - 512}, {0, 512}},
        {{2 * mib, 3584}, {0, 512}}, {{100, 3996}, {0, 0}},
    };
    Ordinary third(page_bytes);
    for (const Shape& shape : shapes)
      for (const bool second_is_managed : {false, true}) {
        const auto read = [&](bool is_managed) {
          const iovec pieces[] = {{place(is_managed, 0) + shape.at[0], shape.bytes[0]},
                                  {place(is_managed && second_is_managed, 1) + shape.at[1],
                                   std::min(shape.bytes[1], part - shape.at[1])},
                                  {third.data.get(), page_bytes}};
          return result_of(file.fd(), 0, [&] { return ::readv(file.fd(), pieces, 3); });
        };
        const Result expected = read(false);
        const Result found = read(true);
        // Some versions of Linux examine the address of an empty piece, too.
        if (shape.bytes[0] == 0 && expected.returned < 0) continue;
        expect(found == expected, "readv of " + std::to_string(shape.bytes[0]) + " and " +
                                      std::to_string(shape.bytes[1]) + ": " + found.describe() +
                                      "; ordinary: " + expected.describe());
        if (found.returned <= 0) continue;
        expect(has_content(managed.data() + shape.at[0], shape.bytes[0], 0), "first piece");
        expect(
            has_content(place(second_is_managed, 1) + shape.at[1], shape.bytes[1], shape.bytes[0]),
            "second piece");
      }
  });
}

namespace {

// Calls the function on a stack of its own, which is gone afterwards.
void on_other_stack(const std::function<void()>& function) {
  constexpr std::size_t bytes = 64 * page_bytes;
  static thread_local const std::function<void()>* body;
  static thread_local ucontext_t before, other;
  body = &function;
  void* const stack =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  expect(stack != MAP_FAILED && ::getcontext(&other) == 0, "a stack");
  other.uc_stack = {stack, 0, bytes};
  other.uc_link = &before;
  ::makecontext(
      &other, [] { (*body)(); }, 0);
  ::swapcontext(&before, &other);
  ::munmap(stack, bytes);
}

// Reads a page with an array of one piece at `place`, twice: the second time the place is known.
void expect_read_by(const DirectFile& file, iovec* place, char* page) {
  *place = {page, page_bytes};
  for (int i = 0; i < 2; ++i) {
    page[1] = 0;
    expect(::preadv(file.fd(), place, 1, 0) == page_bytes && has_content(page, page_bytes, 0),
           "an array that can be read");
  }
}
void expect_refused(const DirectFile& file, const iovec* array, int count) {
  errno = 0;
  expect(::preadv(file.fd(), array, count, 0) == -1 && errno == EFAULT,
         "an array that cannot be read");
}

}  // namespace

TEST_CASE("arrays of pieces may be anywhere, and those that cannot be read are refused", "[io]") {
  in_both_ways([] {
    const DirectFile file(mib);
    const Session session("capacity=64M");
    const Managed<char> page{page_bytes}, elsewhere{page_bytes};
    const auto read_by_all = [&] {
      std::array<iovec, 8192> deep;
      for (const std::size_t at : {std::size_t{0}, deep.size() / 2, deep.size() - 1})
        expect_read_by(file, &deep[at], page.data());
      const auto on_heap = std::make_unique<iovec>();
      expect_read_by(file, on_heap.get(), page.data());
      expect_read_by(file, reinterpret_cast<iovec*>(elsewhere.data()), page.data());

      // Arrays in memory that nobody has read yet. Of `pair` only the first page can be read; the
      // second reading finds it known.
      const auto map = [](int rights) {
        return static_cast<iovec*>(
            ::mmap(nullptr, 2 * page_bytes, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
      };
      iovec* const closed = map(PROT_NONE);
      expect_refused(file, closed, 1);
      iovec* const pair = map(PROT_READ | PROT_WRITE);
      ::munmap(reinterpret_cast<char*>(pair) + page_bytes, page_bytes);
      for (int i = 0; i < 2; ++i) {
        expect_refused(file, pair + page_bytes / sizeof(iovec) - 1, 2);
        expect_read_by(file, pair, page.data());
      }
      on_other_stack([&] {
        std::array<iovec, 1024> array;
        expect_read_by(file, &array.back(), page.data());
        expect_read_by(file, &deep[1], page.data());
      });
      expect_refused(file, nullptr, 1);
      expect_refused(file, reinterpret_cast<const iovec*>(~std::uintptr_t{4095}), 1);
    };
    read_by_all();
    std::thread(read_by_all).join();
  });
}

TEST_CASE("threads that read directly at one file's position read each byte once, in whole records",
          "[io]") {
  in_both_ways([] {
    constexpr std::size_t record = 2 * mib + page_bytes;
    constexpr std::size_t records = 12;
    const DirectFile file(record * records + 512);
    const Session session("capacity=64M");
    std::vector<std::atomic<int>> read_count(records);
    std::atomic<std::size_t> tail = 0;
    std::atomic<bool> is_right = true;
    const auto run = [&] {
      const Managed<char> memory{record};
      for (;;) {
        const ssize_t got = ::read(file.fd(), memory.data(), record);
        if (got <= 0) break;
        if (got != static_cast<ssize_t>(record)) {
          tail += static_cast<std::size_t>(got);
          continue;
        }
        std::size_t index = 0;
        while (index < records && !has_content(memory.data(), record, index * record)) ++index;
        if (index == records)
          is_right = false;
        else
          ++read_count[index];
      }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i)
      threads.emplace_back([&] {
        WHERRY_TRY(cuCtxSetCurrent(session.context(0)));
        run();
      });
    for (std::thread& thread : threads) thread.join();
    expect(is_right, "a record was not in one piece");
    for (const std::atomic<int>& count : read_count)
      expect(count == 1, "a record was not read once");
    expect(tail == 512, "the tail");
  });
}

TEST_CASE("a direct read of a GiB needs a MiB, and without memory it fails with ENOMEM", "[io]") {
  if (is_sanitized) return;  // limits of memory
  in_both_ways([] {
    const DirectFile file(page_bytes);
    const Session session("capacity=16M");
    constexpr std::size_t gib = std::size_t{1} << 30;
    const Managed<char> memory{gib};
    memory[0] = 5;
    const auto limit_room = [](std::size_t room) {
      std::FILE* const sizes = std::fopen("/proc/self/statm", "re");
      unsigned long pages = 0;
      expect(sizes != nullptr && std::fscanf(sizes, "%lu", &pages) == 1, "statm");
      std::fclose(sizes);
      rlimit limit{};
      ::getrlimit(RLIMIT_AS, &limit);
      limit.rlim_cur = pages * page_bytes + room;
      expect(::setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");
    };
    limit_room(0);
    expect(::pread(file.fd(), memory.data(), gib, 0) == -1 && errno == ENOMEM, "without memory");
    expect(memory[0] == 5, "something was read");
    limit_room(2 * mib);
    expect(::pread(file.fd(), memory.data(), gib, 0) == page_bytes, "with 2 MiB");
    expect(has_content(memory.data(), page_bytes, 0), "content");
  });
}

TEST_CASE("flags of preadv2 have their meaning", "[io]") {
  in_both_ways([] {
    const DirectFile file(2 * mib);
    const Session session("capacity=16M");
    const Managed<char> memory{2 * mib};
    const iovec piece{memory.data(), 2 * mib};
    errno = 0;
    expect(::preadv2(file.fd(), &piece, 1, 0, 1 << 30) == -1 && errno == EOPNOTSUPP, "unknown");
    for (const int flag : {RWF_NOWAIT, RWF_HIPRI}) {
      const ssize_t got = ::preadv2(file.fd(), &piece, 1, 0, flag);
      // Linux may also refuse the flag, or have nothing without waiting.
      expect(got > 0 || (got == -1 && (errno == EAGAIN || errno == EOPNOTSUPP)), "flags");
      if (got > 0) expect(has_content(memory.data(), static_cast<std::size_t>(got), 0), "content");
    }
  });
}

TEST_CASE("a pipe with O_DIRECT keeps its packets, and a device takes memory that a read waits for",
          "[io]") {
  const Outcome outcome = in_fresh_process([] {
    const Session session("capacity=16M");
    int ends[2];
    expect(::pipe2(ends, O_DIRECT | O_CLOEXEC) == 0, "pipe2");
    constexpr std::size_t room = mib + 100;
    const Managed<char> memory{room};
    std::memset(memory.data(), 1, room);
    expect(::write(ends[1], std::string(200, 'a').data(), 200) == 200, "write");
    expect(::write(ends[1], std::string(300, 'b').data(), 300) == 300, "write");
    expect(::read(ends[0], memory.data(), room) == 200 && memory[199] == 'a', "first packet");
    expect(::read(ends[0], memory.data(), room) == 300 && memory[299] == 'b', "second packet");
    std::atomic<pid_t> tid = 0;
    ssize_t got = 0;
    std::thread reader([&] {
      tid = ::gettid();
      got = ::read(ends[0], memory.data(), room);
    });
    const auto sleeps = [&] {
      return tid != 0 && process_status(tid, "State").value_or("").starts_with("S");
    };
    expect(comes_true(sleeps), "the reader does not wait");
    session.run(0, [start = memory.data()] { start[0] = 3; });
    expect(::write(ends[1], "c", 1) == 1, "write");
    reader.join();
    if (serves_system_calls())
      expect(got == 1 && memory[0] == 'c', "third packet");
    else
      expect(got == -1, "Linux found memory that is elsewhere");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("a thread is cancelled in a direct read, which leaves nothing behind", "[io]") {
  in_both_ways([] {
    const DirectFile file(3 * mib);
    const Session session("capacity=16M");
    struct Work {
      const Managed<char> memory{3 * mib};
      int fd = -1;
      std::atomic<int> cleaned_up = 0;
    } work;
    work.fd = file.fd();
    std::memset(work.memory.data(), 1, work.memory.size());
    const auto run = [](void* pointer) -> void* {
      Work& own = *static_cast<Work*>(pointer);
      struct CleanUp {
        Work& work;
        ~CleanUp() { ++work.cleaned_up; }
      } const clean_up{own};
      ::pthread_cancel(::pthread_self());
      (void)!::read(own.fd, own.memory.data(), own.memory.size());
      return nullptr;
    };
    std::size_t mappings = 0;
    for (int round = 0; round < 20; ++round) {
      pthread_t thread;
      void* result = nullptr;
      expect(::pthread_create(&thread, nullptr, run, &work) == 0, "a thread");
      expect(::pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED, "not cancelled");
      expect(::lseek(file.fd(), 0, SEEK_CUR) == 0, "the file's position has changed");
      if (round == 10) mappings = count_mappings();  // the threads' stacks exist
    }
    expect(work.cleaned_up == 20, "not cleaned up");
    if (!is_sanitized) expect(count_mappings() <= mappings, "memory is left");
  });
}

TEST_CASE("the checked functions end the program if the memory is too small", "[io]") {
  for (const char* const name : {"__read_chk", "__pread64_chk"}) {
    const Outcome outcome = in_fresh_process([name] {
      const DirectFile file(page_bytes);
      const Session session("capacity=16M");
      const Managed<char> memory{2 * page_bytes};
      if (std::string(name) == "__read_chk")
        (void)!function<ssize_t(int, void*, std::size_t, std::size_t)>(name)(
            file.fd(), memory.data(), 2 * page_bytes, page_bytes);
      else
        (void)!function<ssize_t(int, void*, std::size_t, off_t, std::size_t)>(name)(
            file.fd(), memory.data(), 2 * page_bytes, 0, page_bytes);
    });
    INFO(outcome.describe());
    CHECK(outcome.signal == SIGABRT);
  }
}

TEST_CASE("process_vm_writev to oneself does what it does with ordinary memory", "[io]") {
  in_both_ways([] {
    const Session session("capacity=64M");
    constexpr std::size_t bytes = 3 * mib;
    const Managed<char> managed{bytes};
    Ordinary ordinary(bytes), source(bytes);
    for (std::size_t i = 0; i < bytes; ++i) source.data.get()[i] = byte_at(i);
    char* const nowhere = reinterpret_cast<char*>(page_bytes);
    const auto write = [&](char* to, const iovec* from, unsigned long count, iovec second,
                           unsigned long flags) {
      std::memset(to, 1, bytes);
      const iovec pieces[] = {{to, bytes - 1000}, second};
      errno = EDOM;
      const ssize_t result = ::process_vm_writev(::getpid(), from, count, pieces, 2, flags);
      return Result{result, errno, 0};
    };
    const auto check = [&](const std::string& what, const iovec* from, unsigned long count,
                           bool ends_nowhere, unsigned long flags) {
      const auto second = [&](char* to) {
        return iovec{ends_nowhere ? nowhere : to + bytes - 1000, 1000};
      };
      const Result expected =
          write(ordinary.data.get(), from, count, second(ordinary.data.get()), flags);
      const Result found = write(managed.data(), from, count, second(managed.data()), flags);
      expect(found == expected,
             what + ": " + found.describe() + "; ordinary: " + expected.describe());
      expect(std::memcmp(managed.data(), ordinary.data.get(), bytes) == 0, what + ": content");
    };
    const Pieces all(source.data.get(), bytes);
    const iovec none{source.data.get(), 0};
    const iovec invalid{nowhere, 1000};
    check("all", all.pieces, 2, false, 0);
    check("a part", all.pieces, 1, false, 0);
    check("nothing", &none, 1, false, 0);
    check("from nowhere", &invalid, 1, false, 0);
    check("to nowhere", all.pieces, 2, true, 0);
    check("flags", all.pieces, 2, false, 1);
    check("no pieces", all.pieces, 0, false, 0);
  });
}

TEST_CASE("a forked child reads directly into its own memory", "[io]") {
  in_both_ways([] {
    const DirectFile file(page_bytes);
    const Session session("capacity=16M");
    const Managed<char> memory{page_bytes};
    memory[0] = 1;
    Child child([&] {
      Ordinary own(page_bytes);
      expect(::pread(file.fd(), own.data.get(), page_bytes, 0) == page_bytes, "own memory");
      // Managed memory is not inherited.
      expect(::pread(file.fd(), memory.data(), page_bytes, 0) == -1 && errno == EFAULT, "managed");
    });
    const Outcome in_child = child.wait(20'000);
    expect(in_child.passed(), in_child.describe());
  });
}

}  // namespace
}  // namespace wherry::test::direct_read_test
