#include "measure/round_trips.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "measure/plain_memory.h"
#include "measure/timing.h"

namespace wherry::bench {
namespace {

constexpr int warm_up = 100;
constexpr int round_trips = 4000;

// The median of single calls, in microseconds, without the first ones.
template <typename Work>
double median_us(int times, const Work& work) {
  std::vector<double> each;
  for (int i = 0; i < times; ++i) each.push_back(ns_of(work));
  const int dropped = times > 10 * warm_up ? warm_up : 1;
  each.erase(each.begin(), each.begin() + dropped);
  return median(each) / 1e3;
}

// Says in a futex which of two threads has its turn.
class Turns {
 public:
  void give(std::uint32_t to) {
    turn_.store(to);
    ::syscall(SYS_futex, &turn_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }
  void await(std::uint32_t mine) {
    for (std::uint32_t seen = turn_.load(); seen != mine; seen = turn_.load())
      ::syscall(SYS_futex, &turn_, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
  }

 private:
  std::atomic<std::uint32_t> turn_{0};
};

}  // namespace

double futex_round_trip_us() {
  Turns turns;
  std::thread other([&] {
    for (int i = 0; i < round_trips; ++i) {
      turns.await(1);
      turns.give(0);
    }
  });
  const double result = median_us(round_trips, [&] {
    turns.give(1);
    turns.await(0);
  });
  other.join();
  return result;
}

double thread_pool_round_trip_us() {
  std::mutex mutex;
  std::condition_variable given, done;
  int work = 0;
  bool ended = false;
  std::thread worker([&] {
    std::unique_lock lock(mutex);
    for (;;) {
      given.wait(lock, [&] { return work != 0 || ended; });
      if (ended) return;
      work = 0;
      done.notify_one();
    }
  });
  const double result = median_us(round_trips, [&] {
    std::unique_lock lock(mutex);
    work = 1;
    given.notify_one();
    done.wait(lock, [&] { return work == 0; });
  });
  {
    const std::lock_guard lock(mutex);
    ended = true;
  }
  given.notify_one();
  worker.join();
  return result;
}

double system_call_us() {
  constexpr int calls = 100;
  return median_us(round_trips,
                   [] {
                     for (int i = 0; i < calls; ++i) ::syscall(SYS_getppid);
                   }) /
         calls;
}

double fork_round_trip_us() {
  return median_us(15, [] {
    const pid_t child = ::fork();
    if (child < 0) fail("fork");
    if (child == 0) ::_exit(0);
    while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
  });
}

double map_page_us() {
  constexpr std::size_t block = std::size_t{2} << 20;
  constexpr int blocks = 8;
  const int fd = ::memfd_create("mapped-page", MFD_CLOEXEC);
  if (fd < 0) fail("memfd");
  PlainMemory file(blocks * block, PlainMemory::Pages::small, fd);
  file.fill();
  const PlainMemory reserved(blocks * block, PlainMemory::Pages::small);
  std::byte* at = reserved.data();
  return median_us(
             blocks,
             [&] {
               if (::mmap(at, block, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE,
                          fd, at - reserved.data()) == MAP_FAILED)
                 fail("mmap of a block");
               at += block;
             }) /
         (block / 4096);
}

}  // namespace wherry::bench
