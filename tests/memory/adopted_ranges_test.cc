#include "memory/adopted_ranges.h"

#include <liburing.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <future>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/page.h"
#include "os/memory/address_map.h"
#include "os/memory/loader_memory.h"
#include "os/memory/pinned_buffers.h"
#include "os/process/permissions.h"
#include "support/catch.h"
#include "support/child.h"
#include "support/conditions.h"
#include "support/descriptors.h"
#include "support/session.h"

namespace wherry::test::adopted_ranges_test {
namespace {

using impl::AddressRange;
using impl::AdoptedRanges;
using impl::block_size;
using impl::page_size;
using Verdict = AdoptedRanges::Verdict;

constexpr std::size_t file_bytes = std::size_t{1} << 30;

// Memory with the given mapping, as bytes.
class Place {
 public:
  explicit Place(std::size_t bytes, int protection = PROT_READ | PROT_WRITE,
                 int flags = MAP_PRIVATE | MAP_ANONYMOUS, int fd = -1)
      : bytes_(bytes), start_(::mmap(nullptr, bytes, protection, flags, fd, 0)) {}
  ~Place() {
    if (exists()) ::munmap(start_, bytes_);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  bool exists() const { return start_ != MAP_FAILED; }
  std::uintptr_t address() const { return reinterpret_cast<std::uintptr_t>(start_); }
  unsigned char* data() const { return static_cast<unsigned char*>(start_); }
  AddressRange range() const { return {address(), address() + bytes_}; }

 private:
  std::size_t bytes_;
  void* start_;
};

AddressRange range_of(const void* start, std::size_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(start);
  return {address, address + bytes};
}

struct Adoption {
  explicit Adoption(std::optional<impl::UffdAccess> access = impl::permissions().userfaultfd(),
                    std::chrono::milliseconds fork_limit = AdoptedRanges::fork_limit)
      : ranges(file, access, fork_limit) {}

  Verdict adopt(AddressRange range, bool read_only = false) {
    return ranges.adopt(range, 0, read_only);
  }

  impl::MemoryFile file{"wherry-test-adopted", file_bytes, impl::HugePages::never};
  AdoptedRanges ranges;
};

// Whether Linux shows a test's file mapped at the place.
bool is_in_file(const Place& place) {
  const std::string text = impl::read_address_map();
  std::string_view map = text;
  while (const auto mapping = impl::next_mapping(map))
    if (mapping->range.start <= place.address() && place.address() < mapping->range.end)
      return mapping->name.find("wherry-test-adopted") != std::string::npos;
  return false;
}

// All ways on this machine to stop threads from writing.
std::vector<std::optional<impl::UffdAccess>> ways_to_freeze() {
  std::vector<std::optional<impl::UffdAccess>> ways{std::nullopt};
  if (impl::permissions().userfaultfd()) ways.push_back(impl::permissions().userfaultfd());
  return ways;
}

}  // namespace

TEST_CASE(
    "no increment is lost while memory is adopted and given back, with every way to stop writers",
    "[memory]") {
  // This is the first case, and each way runs in a process of its own: after a case the main
  // program restores SIGSEGV's action, and under sanitizers the library does not notice that.
  const auto play = [](std::optional<impl::UffdAccess> way) {
    Adoption adoption(way);
    const int rounds = static_cast<int>(1000 * scale());
    const Place place(64 * page_size);
    auto* words = reinterpret_cast<std::uint64_t*>(place.data());
    std::atomic<bool> stop = false;
    std::array<std::uint64_t, 3> counts{};
    std::vector<std::thread> threads;
    for (std::size_t writer = 0; writer < counts.size(); ++writer)
      threads.emplace_back([&, writer] {
        std::uint64_t count = 0;
        for (std::size_t i = 0; !stop; ++i, ++count) {
          auto* word = const_cast<volatile std::uint64_t*>(words + i % 64 * 512 + writer);
          *word = *word + 1;
        }
        counts[writer] = count;
      });
    for (int round = 0; round < rounds; ++round) {
      // Reports a failure without an exception, because the other threads still run.
      const Verdict verdict = adoption.adopt(place.range());
      if (verdict != Verdict::adopted || !adoption.ranges.give_back(place.range())) {
        std::fprintf(stderr, "round %d: verdict %d, or not given back\n", round,
                     static_cast<int>(verdict));
        std::_Exit(1);
      }
    }
    stop = true;
    for (std::thread& thread : threads) thread.join();
    for (std::size_t writer = 0; writer < counts.size(); ++writer) {
      std::uint64_t sum = 0;
      for (std::size_t i = 0; i < 64; ++i) sum += words[i * 512 + writer];
      expect(sum == counts[writer], "an increment is lost");
    }
  };
  for (const std::optional<impl::UffdAccess> way : ways_to_freeze()) {
    const Outcome outcome = in_fresh_process([&] { play(way); });
    INFO(outcome.describe());
    CHECK(outcome.passed());
  }
}

TEST_CASE("memory that cannot be adopted safely is refused, and does not change", "[memory]") {
  Adoption adoption;
  CHECK(adoption.adopt(range_of(reinterpret_cast<const void*>(&pthread_self), 16)) ==
        Verdict::unsuitable);

  const Place shared(page_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
  CHECK(adoption.adopt(shared.range()) == Verdict::unsuitable);
  const impl::MemoryFile other("wherry-test-other", page_size, impl::HugePages::never);
  const Place past_end(2 * page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, other.fd());
  CHECK(adoption.adopt(past_end.range()) == Verdict::absent);
  const Place code(page_size, PROT_READ | PROT_EXEC);
  CHECK(adoption.adopt(code.range()) == Verdict::unsuitable);
  const Place locked(page_size);
  // Uses the system call, because the C library's function does nothing under sanitizers.
  if (::syscall(SYS_mlock, locked.data(), page_size) == 0)
    CHECK(adoption.adopt(locked.range()) == Verdict::unsuitable);
  const Place huge(block_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB);
  if (huge.exists()) CHECK(adoption.adopt(huge.range()) == Verdict::unsuitable);

  const Place closed(page_size, PROT_NONE);
  CHECK(adoption.adopt(closed.range()) == Verdict::absent);
  const Place constant(page_size, PROT_READ);
  CHECK(adoption.adopt(constant.range()) == Verdict::absent);
  const Place holed(3 * page_size);
  REQUIRE(::munmap(holed.data() + page_size, page_size) == 0);
  CHECK(adoption.adopt(holed.range()) == Verdict::absent);
  CHECK(allocated_bytes(adoption.file.fd()) == 0);
}

TEST_CASE("buffers that are registered with io_uring are refused during the registration",
          "[memory]") {
  if (!impl::permissions()[impl::Request::io_uring]) return;
  Adoption adoption;
  const Place place(2 * page_size);
  io_uring ring{};
  REQUIRE(::io_uring_queue_init(2, &ring, 0) == 0);
  const iovec buffer{place.data() + page_size, page_size};
  REQUIRE(::io_uring_register_buffers(&ring, &buffer, 1) == 0);
  CHECK(adoption.adopt(place.range()) == Verdict::unsuitable);
  CHECK(adoption.adopt({place.address(), place.address() + page_size}) == Verdict::adopted);
  CHECK(adoption.ranges.give_back({place.address(), place.address() + page_size}));
  REQUIRE(::io_uring_unregister_buffers(&ring) == 0);
  CHECK(adoption.adopt(place.range()) == Verdict::adopted);
  CHECK(adoption.ranges.give_back(place.range()));
  ::io_uring_queue_exit(&ring);
}

TEST_CASE("a buffer behind a free place of io_uring's table is refused, too", "[memory]") {
  if (!impl::permissions()[impl::Request::io_uring]) return;
  io_uring ring{};
  REQUIRE(::io_uring_queue_init(2, &ring, 0) == 0);
  constexpr unsigned places = 3;
  if (::io_uring_register_buffers_sparse(&ring, places) != 0) {  // before Linux 5.19
    ::io_uring_queue_exit(&ring);
    return;
  }
  Adoption adoption;
  const Place place(page_size);
  const iovec buffer{place.data(), page_size};
  __u64 tag = 0;
  REQUIRE(::io_uring_register_buffers_update_tag(&ring, places - 1, &buffer, &tag, 1) == 1);
  CHECK(adoption.adopt(place.range()) == Verdict::unsuitable);
  REQUIRE(::io_uring_unregister_buffers(&ring) == 0);
  CHECK(adoption.adopt(place.range()) == Verdict::adopted);
  CHECK(adoption.ranges.give_back(place.range()));
  ::io_uring_queue_exit(&ring);
}

TEST_CASE("a buffer of a ring that a thread uses all the time is refused, too", "[memory]") {
  if (!impl::permissions()[impl::Request::io_uring]) return;
  constexpr unsigned entries = 1024;
  io_uring ring{};
  REQUIRE(::io_uring_queue_init(entries, &ring, 0) == 0);
  const Place place(page_size);
  const iovec buffer{place.data(), page_size};
  REQUIRE(::io_uring_register_buffers(&ring, &buffer, 1) == 0);
  std::atomic<bool> done = false;
  // Linux holds the ring's lock during each submission.
  std::thread user([&] {
    while (!done) {
      while (io_uring_sqe* entry = ::io_uring_get_sqe(&ring)) ::io_uring_prep_nop(entry);
      if (::io_uring_submit_and_wait(&ring, 1) < 0) return;
      ::io_uring_cq_advance(&ring, ::io_uring_cq_ready(&ring));
    }
  });
  int missed = 0;
  for (int i = 0; i < 200; ++i) {
    const auto buffers = impl::pinned_buffers();
    missed += std::ranges::find(buffers, place.range()) == buffers.end() ? 1 : 0;
  }
  done = true;
  user.join();
  CHECK(missed == 0);
  ::io_uring_queue_exit(&ring);
}

TEST_CASE("stacks are adopted while they are in use, but not the control block at their end",
          "[memory]") {
  const auto play = [](std::optional<impl::UffdAccess> way) {
    Adoption adoption(way);
    std::atomic<volatile unsigned char*> on_stack = nullptr;
    std::atomic<bool> done = false;
    std::thread thread([&] {
      volatile unsigned char here[64 << 10];
      unsigned char next = 0;
      for (volatile unsigned char& byte : here) byte = next++;
      on_stack = here;
      for (; !done; ++next) {
        here[next] = next;
        expect(here[next] == next, "a write to the stack is lost");
      }
    });
    while (on_stack == nullptr) std::this_thread::yield();
    // Leaves out the end of the array, which may share a page with the thread's control block.
    const AddressRange range = range_of(const_cast<unsigned char*>(on_stack.load()), 56 << 10);
    for (int round = 0; round < 20; ++round) {
      // Without a userfaultfd its writers would need their stack to wait.
      expect(adoption.adopt(range) == (way ? Verdict::adopted : Verdict::unsuitable),
             "another thread's stack");
      expect(adoption.ranges.give_back(range), "given back");
    }
    const auto block = reinterpret_cast<const void*>(thread.native_handle());
    expect(adoption.adopt(range_of(block, 4)) == Verdict::unsuitable, "the control block");
    done = true;
    thread.join();

    // This thread's own stack, up to the frames of the calls.
    volatile unsigned char mine[20'000];
    for (std::size_t i = 0; i < sizeof mine; ++i) mine[i] = static_cast<unsigned char>(i);
    const AddressRange own = range_of(const_cast<unsigned char*>(mine), sizeof mine);
    for (int round = 0; round < 20; ++round) {
      expect(adoption.adopt(own) == Verdict::adopted, "the own stack");
      std::array<unsigned char, 1> there{};
      expect(::pread(adoption.file.fd(), there.data(), 1,
                     static_cast<off_t>(own.start % page_size + 7777)) == 1 &&
                 there[0] == static_cast<unsigned char>(7777),
             "the stack is not in the file");
      expect(adoption.ranges.give_back(own), "given back");
    }
    for (std::size_t i = 0; i < sizeof mine; ++i)
      expect(mine[i] == static_cast<unsigned char>(i), "the stack has changed");
    // Stacks still grow.
    const std::function<int(int)> deep = [&](int depth) {
      volatile unsigned char frame[10'000];
      frame[depth % 100] = 1;
      return depth == 0 ? 0 : frame[depth % 100] + deep(depth - 1);
    };
    expect(deep(200) == 200, "the stack grows");
  };
  for (const std::optional<impl::UffdAccess> way : ways_to_freeze()) {
    const Outcome outcome = in_fresh_process([&] { play(way); });
    INFO(outcome.describe());
    CHECK(outcome.passed());
  }
}

TEST_CASE("ranges share a page, which is given back with the last of them", "[memory]") {
  for (const std::optional<impl::UffdAccess> way : ways_to_freeze()) {
    Adoption adoption(way);
    const Place place(3 * page_size);
    std::memset(place.data(), 1, 3 * page_size);
    const AddressRange first = range_of(place.data() + 100, 50);
    const AddressRange second = range_of(place.data() + 200, page_size);
    const AddressRange third = range_of(place.data() + page_size + 200, 2 * page_size - 200);
    REQUIRE(adoption.adopt(first) == Verdict::adopted);
    REQUIRE(adoption.ranges.adopt(second, 8 * page_size, false) == Verdict::adopted);
    REQUIRE(adoption.ranges.adopt(third, 16 * page_size, false) == Verdict::adopted);
    const auto pieces = adoption.ranges.pieces_of(second);
    REQUIRE(pieces.size() == 2);
    CHECK(pieces[0].offset == 0);
    CHECK(pieces[1].offset == 9 * page_size);
    CHECK(adoption.ranges.pieces_of(third).size() == 2);
    CHECK(adoption.ranges.pieces_of(third)[0].offset == 9 * page_size);
    CHECK(allocated_bytes(adoption.file.fd()) == 3 * page_size);
    place.data()[300] = 7;
    CHECK(adoption.ranges.give_back(first));
    CHECK(is_in_file(place));
    CHECK(adoption.ranges.uses(0, page_size));
    unsigned char there = 0;
    CHECK(::pread(adoption.file.fd(), &there, 1, 300) == 1);
    CHECK(there == 7);
    CHECK(adoption.ranges.give_back(second));
    CHECK_FALSE(is_in_file(place));
    CHECK_FALSE(adoption.ranges.uses(0, page_size));
    CHECK(adoption.ranges.uses(8 * page_size, 8 * page_size));
    CHECK(place.data()[300] == 7);
    CHECK(adoption.ranges.give_back(third));
    CHECK(allocated_bytes(adoption.file.fd()) == 0);
  }
}

TEST_CASE("a private mapping of a file becomes independent of the file", "[memory]") {
  Adoption adoption;
  const impl::MemoryFile other("wherry-test-other", 2 * page_size, impl::HugePages::never);
  REQUIRE(::pwrite(other.fd(), "before", 6, 10) == 6);
  const Place of_file(2 * page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, other.fd());
  of_file.data()[page_size] = 5;
  REQUIRE(adoption.adopt(of_file.range()) == Verdict::adopted);
  CHECK(std::memcmp(of_file.data() + 10, "before", 6) == 0);
  CHECK(adoption.ranges.give_back(of_file.range()));
  CHECK(std::memcmp(of_file.data() + 10, "before", 6) == 0);
  CHECK(of_file.data()[page_size] == 5);
}

TEST_CASE("contents are the same after adoption and after it ends, and in the file meanwhile",
          "[memory]") {
  for (const std::optional<impl::UffdAccess> way : ways_to_freeze()) {
    Adoption adoption(way);
    const Place place(3 * block_size);
    for (std::size_t i = 0; i < 3 * block_size; i += 100)
      place.data()[i] = static_cast<unsigned char>(i / 100);
    const AddressRange bytes{place.address() + 10, place.address() + 3 * block_size - 10};
    REQUIRE(adoption.adopt(bytes) == Verdict::adopted);
    CHECK(allocated_bytes(adoption.file.fd()) == 3 * block_size);
    std::vector<std::byte> in_file(3 * block_size);
    REQUIRE(adoption.file.read(0, in_file));
    CHECK(std::memcmp(in_file.data(), place.data(), in_file.size()) == 0);
    place.data()[block_size] = 250;
    REQUIRE(adoption.file.read(block_size, std::span(in_file).first(1)));
    CHECK(in_file[0] == std::byte{250});
    CHECK(adoption.ranges.give_back(bytes));
    CHECK(allocated_bytes(adoption.file.fd()) == 0);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < 3 * block_size; i += 100)
      wrong += place.data()[i] != static_cast<unsigned char>(i / 100);
    CHECK(wrong == 0);
  }
}

TEST_CASE("a forked child has its own copies, even if no more descriptors are available",
          "[memory]") {
  const auto play = [](std::optional<impl::UffdAccess> way) {
    Adoption adoption(way);
    const Place place(4 * page_size);
    std::memset(place.data(), 1, 4 * page_size);
    // Shares pages at both ends with other data, and has pages of its own between.
    const AddressRange bytes{place.address() + 100, place.address() + 3 * page_size + 100};
    expect(adoption.adopt(bytes) == Verdict::adopted, "the memory was not adopted");
    const Place signal(page_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
    auto& step = *reinterpret_cast<std::atomic<int>*>(signal.data());
    rlimit limit{};
    expect(::getrlimit(RLIMIT_NOFILE, &limit) == 0, "the limit cannot be read");
    limit.rlim_cur = 3;
    expect(::setrlimit(RLIMIT_NOFILE, &limit) == 0 && ::dup(0) < 0,
           "descriptors are still available");
    const std::array<std::size_t, 4> places{0, 200, page_size + 5, 3 * page_size + 99};
    for (int round = 0; round < 3; ++round) {
      step = 0;
      adoption.ranges.before_fork();
      const pid_t child = ::fork();
      if (child == 0) {
        adoption.ranges.after_fork_in_child();
        for (const std::size_t at : places) place.data()[at] = 2;
        step = 1;
        for (int i = 0; i < 10'000 && step != 2; ++i) ::usleep(1000);
        for (const std::size_t at : places)
          if (place.data()[at] != 2) ::_exit(1);
        ::_exit(place.data()[300] == 1 ? 0 : 2);
      }
      adoption.ranges.after_fork(/*child_copies=*/true);
      for (int i = 0; i < 10'000 && step != 1; ++i) ::usleep(1000);
      for (const std::size_t at : places)
        expect(place.data()[at] == 1, "the parent sees the child's write");
      for (const std::size_t at : places) place.data()[at] = 3;
      place.data()[300] = 3;
      step = 2;
      int status = -1;
      expect(::waitpid(child, &status, 0) == child && status == 0,
             "the child sees the parent's write");
      // The parent still has the memory in the file.
      for (const std::size_t at : places) {
        unsigned char there = 0;
        expect(::pread(adoption.file.fd(), &there, 1, static_cast<off_t>(at)) == 1 && there == 3,
               "the parent's write is not in the file");
        place.data()[at] = 1;
      }
      place.data()[300] = 1;
    }
  };
  if (impl::runs_under_sanitizer()) {
    WARN("not under sanitizers: they need descriptors to look at objects");
    return;
  }
  for (const std::optional<impl::UffdAccess> way : ways_to_freeze()) {
    const Outcome outcome = in_fresh_process([&] { play(way); });
    INFO(outcome.describe());
    CHECK(outcome.passed());
  }
}

TEST_CASE("a forked child without memory for a copy says that it shares the parent's pages",
          "[memory]") {
  if (impl::runs_under_sanitizer()) {
    WARN("not under sanitizers: they need address space");
    return;
  }
  const Outcome outcome = in_fresh_process([] {
    Adoption adoption;
    const Place place(4 * page_size);
    expect(adoption.adopt(place.range()) == Verdict::adopted, "the memory was not adopted");
    adoption.ranges.before_fork();
    const pid_t child = ::fork();
    if (child == 0) {
      const rlimit nothing_more{1, 1};
      expect(::setrlimit(RLIMIT_AS, &nothing_more) == 0, "the address space has no limit");
      adoption.ranges.after_fork_in_child();
      ::_exit(0);
    }
    adoption.ranges.after_fork(/*child_copies=*/true);
    int status = -1;
    expect(::waitpid(child, &status, 0) == child && status == 0, "the child failed");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
  CHECK_THAT(outcome.err,
             Catch::Matchers::ContainsSubstring("this child shares registered memory"));
}

TEST_CASE("a fork does not wait for a child that was made without the handlers", "[memory]") {
  const Outcome outcome = in_fresh_process([] {
    Adoption adoption;
    const Place place(4 * page_size);
    std::memset(place.data(), 1, 4 * page_size);
    expect(adoption.adopt(place.range()) == Verdict::adopted, "adopted");
    // Makes a child like a library that does not know of fork handlers. The child has all
    // descriptors that are open now.
    const auto stray = static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
    if (stray == 0)
      for (;;) ::pause();
    const auto begin = std::chrono::steady_clock::now();
    adoption.ranges.before_fork();
    const pid_t child = ::fork();
    if (child == 0) {
      adoption.ranges.after_fork_in_child();
      ::_exit(place.data()[0]);
    }
    adoption.ranges.after_fork(/*child_copies=*/true);
    const auto took = std::chrono::steady_clock::now() - begin;
    ::kill(stray, SIGKILL);
    place.data()[0] = 2;
    int status = -1;
    expect(::waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 1,
           "the child has no copy of its own");
    expect(took < std::chrono::seconds(8), "the fork waited for the stray child");
    expect(::waitpid(stray, nullptr, 0) == stray, "the stray child has not ended");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("during another thread's fork nothing is adopted or given back, and waiting has a limit",
          "[memory]") {
  using namespace std::chrono_literals;
  Adoption hasty(impl::permissions().userfaultfd(), 50ms);
  const Place place(4 * page_size);
  const Place other(4 * page_size);
  REQUIRE(hasty.adopt(place.range()) == Verdict::adopted);
  hasty.ranges.before_fork();
  // This thread may hold a lock for which the application's fork handler waits.
  std::thread([&] {
    CHECK(hasty.ranges.adopt(other.range(), 8 * page_size, false) == Verdict::forking);
    CHECK_FALSE(hasty.ranges.give_back(place.range()));
    CHECK_FALSE(hasty.ranges.wait_for_fork());
  }).join();
  CHECK_FALSE(is_in_file(other));
  CHECK(is_in_file(place));
  hasty.ranges.after_fork(/*child_copies=*/false);
  CHECK(hasty.ranges.adopt(other.range(), 8 * page_size, false) == Verdict::adopted);
  CHECK(hasty.ranges.give_back(place.range()));
  CHECK_FALSE(is_in_file(place));

  // A fork that does not take too long is waited for.
  Adoption patient;
  patient.ranges.before_fork();
  auto adopting = std::async(std::launch::async, [&] { return patient.adopt(place.range()); });
  CHECK(adopting.wait_for(20ms) == std::future_status::timeout);
  patient.ranges.after_fork(/*child_copies=*/false);
  CHECK(adopting.get() == Verdict::adopted);
  CHECK(is_in_file(place));
}

TEST_CASE("a handler that interrupts adopting and giving back may fork", "[memory]") {
  constexpr int limit_ms = 30'000;
  const Outcome outcome = in_fresh_process(
      [] {
        static Adoption adoption;
        static std::atomic<int> forks = 0;
        struct sigaction action {};
        action.sa_handler = [](int) {
          adoption.ranges.before_fork();
          adoption.ranges.after_fork(/*child_copies=*/false);
          ++forks;
        };
        expect(::sigaction(SIGALRM, &action, nullptr) == 0, "sigaction");
        const itimerval often{{0, 100}, {0, 100}};
        expect(::setitimer(ITIMER_REAL, &often, nullptr) == 0, "setitimer");
        const Place place(2 * page_size);
        while (forks < 300) {
          expect(adoption.adopt(place.range()) == Verdict::adopted, "adopted");
          expect(adoption.ranges.give_back(place.range()), "given back");
        }
        ::_exit(0);
      },
      limit_ms);
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("adopting and giving back leave no mappings behind", "[memory]") {
  Adoption adoption;
  const Place place(8 * block_size);
  std::memset(place.data(), 1, 8 * block_size);
  const auto count_mappings = [] {
    const std::string map = impl::read_address_map();
    return std::count(map.begin(), map.end(), '\n');
  };
  REQUIRE(adoption.adopt(place.range()) == Verdict::adopted);
  REQUIRE(adoption.ranges.give_back(place.range()));
  const auto before = count_mappings();
  for (int round = 0; round < 20; ++round) {
    REQUIRE(adoption.adopt(place.range()) == Verdict::adopted);
    REQUIRE(adoption.ranges.give_back(place.range()));
  }
  CHECK(count_mappings() <= before + 2);
}

}  // namespace wherry::test::adopted_ranges_test
