// Signals that interrupt API calls, with handlers that access managed memory: the handlers must not
// need locks that the interrupted call holds.
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/child.h"
#include "support/conditions.h"
#include "support/session.h"

namespace wherry::test::signal_storm_test {
namespace {

constexpr std::size_t page_bytes = 4096;
constexpr std::size_t region_bytes = 64 << 10;
constexpr std::size_t field_bytes = std::size_t{8} << 20;
constexpr int limit_ms = 60'000;  // after this time a thread counts as hung

// Managed memory that handlers access, and that class Thief moves to a device continuously.
struct Field {
  char* data = nullptr;
  std::atomic<std::size_t> next{0};
  std::atomic<long> touches{0};

  void touch() {
    const std::size_t at = next.fetch_add(region_bytes) % field_bytes;
    ++data[at];
    wherryTouchPages(data + (at + field_bytes / 2) % field_bytes, page_bytes, WHERRY_TOUCH_WRITE);
    ++touches;
  }
};
Field field;

timer_t storm_timer{};

// A one-shot timer: the thread makes progress between two signals, however slow the machine is.
void rearm_storm() {
  const itimerspec soon{{0, 0}, {0, 150'000}};
  ::timer_settime(storm_timer, 0, &soon, nullptr);
}

void on_timer(int) {
  const int saved_errno = errno;
  field.touch();
  rearm_storm();
  errno = saved_errno;
}

// Raises SIGUSR1 in the calling thread repeatedly.
class Storm {
 public:
  Storm() {
    struct sigaction action {};
    action.sa_handler = on_timer;
    action.sa_flags = SA_RESTART;
    expect(::sigaction(SIGUSR1, &action, nullptr) == 0, "sigaction");
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGUSR1;
    event._sigev_un._tid = static_cast<pid_t>(::syscall(SYS_gettid));
    expect(::timer_create(CLOCK_MONOTONIC, &event, &storm_timer) == 0, "timer_create");
    rearm_storm();
  }
  ~Storm() { ::timer_delete(storm_timer); }
  Storm(const Storm&) = delete;
  Storm& operator=(const Storm&) = delete;
};

// Prefetches the field to the device repeatedly, so that accesses fault.
class Thief {
 public:
  explicit Thief(const Session& session)
      : thread_([this, context = session.context(0)] {
          sigset_t all;
          sigfillset(&all);
          ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
          WHERRY_TRY(cuCtxSetCurrent(context));
          CUstream stream = nullptr;
          WHERRY_TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
          const CUmemLocation device{CU_MEM_LOCATION_TYPE_DEVICE, 0};
          while (!over_) {
            WHERRY_TRY(cuMemPrefetchAsync(reinterpret_cast<CUdeviceptr>(field.data), field_bytes,
                                          device, 0, stream));
            WHERRY_TRY(cuStreamSynchronize(stream));
            std::this_thread::sleep_for(std::chrono::milliseconds(3));
          }
        }) {}
  ~Thief() {
    over_ = true;
    thread_.join();
  }
  Thief(const Thief&) = delete;
  Thief& operator=(const Thief&) = delete;

 private:
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

struct Player {
  const Session& session;
  CUdeviceptr memory = 0;  // managed, 2 MiB
  CUdeviceptr device = 0;  // of device 0, 64 KiB
  std::vector<char> buffer = std::vector<char>(region_bytes);
  CUevent event = nullptr;
  CUmemLocation there{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemLocation here{CU_MEM_LOCATION_TYPE_HOST, 0};
};

struct Call {
  const char* name;
  void (*make)(Player&);
};

void nothing(void*) {}

constexpr std::size_t managed_bytes = std::size_t{2} << 20;

const Call calls[] = {
    {"managed allocation",
     [](Player&) {
       CUdeviceptr piece = 0;
       WHERRY_TRY(cuMemAllocManaged(&piece, 3 * page_bytes, CU_MEM_ATTACH_GLOBAL));
       *reinterpret_cast<volatile char*>(piece) = 1;
       WHERRY_TRY(cuMemFree(piece));
     }},
    {"device allocation",
     [](Player&) {
       CUdeviceptr piece = 0;
       WHERRY_TRY(cuMemAlloc(&piece, 3 * page_bytes));
       WHERRY_TRY(cuMemFree(piece));
     }},
    {"host allocation",
     [](Player&) {
       void* piece = nullptr;
       WHERRY_TRY(cuMemAllocHost(&piece, 3 * page_bytes));
       WHERRY_TRY(cuMemFreeHost(piece));
     }},
    {"pool",
     [](Player& p) {
       CUdeviceptr piece = 0;
       WHERRY_TRY(cuMemAllocAsync(&piece, page_bytes, p.session.stream(0)));
       WHERRY_TRY(cuMemFreeAsync(piece, p.session.stream(0)));
       WHERRY_TRY(p.session.wait(0));
     }},
    {"advice",
     [](Player& p) {
       for (const auto advice : {CU_MEM_ADVISE_SET_READ_MOSTLY, CU_MEM_ADVISE_UNSET_READ_MOSTLY,
                                 CU_MEM_ADVISE_SET_ACCESSED_BY, CU_MEM_ADVISE_UNSET_ACCESSED_BY})
         WHERRY_TRY(cuMemAdvise(p.memory, managed_bytes, advice, p.there));
     }},
    {"prefetch",
     [](Player& p) {
       WHERRY_TRY(cuMemPrefetchAsync(p.memory, managed_bytes, p.there, 0, p.session.stream(0)));
       WHERRY_TRY(cuMemPrefetchAsync(p.memory, managed_bytes, p.here, 0, p.session.stream(0)));
       WHERRY_TRY(p.session.wait(0));
     }},
    {"copy",
     [](Player& p) {
       WHERRY_TRY(cuMemcpyHtoD(p.device, p.buffer.data(), p.buffer.size()));
       WHERRY_TRY(cuMemcpyDtoH(p.buffer.data(), p.memory, p.buffer.size()));
       WHERRY_TRY(cuMemsetD8(p.memory, 3, managed_bytes));
     }},
    {"asynchronous copy",
     [](Player& p) {
       WHERRY_TRY(cuMemcpyAsync(p.memory, p.device, region_bytes, p.session.stream(0)));
       WHERRY_TRY(cuMemsetD8Async(p.memory, 4, managed_bytes, p.session.stream(0)));
       WHERRY_TRY(p.session.wait(0));
     }},
    {"launch",
     [](Player& p) {
       p.session.launch(0, 1, [to = reinterpret_cast<char*>(p.memory)](std::size_t) { ++*to; });
       WHERRY_TRY(cuLaunchHostFunc(p.session.stream(0), nothing, nullptr));
       WHERRY_TRY(p.session.wait(0));
     }},
    {"event",
     [](Player& p) {
       WHERRY_TRY(cuEventRecord(p.event, p.session.stream(0)));
       WHERRY_TRY(cuStreamWaitEvent(p.session.stream(0), p.event, 0));
       WHERRY_TRY(cuEventSynchronize(p.event));
     }},
    {"stream",
     [](Player&) {
       CUstream stream = nullptr;
       WHERRY_TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
       WHERRY_TRY(cuStreamDestroy(stream));
     }},
    {"pointer query",
     [](Player& p) {
       int value = 0;
       WHERRY_TRY(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_IS_MANAGED, p.memory));
       unsigned type = 0;
       WHERRY_TRY(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p.device));
     }},
};

// Makes calls of one kind for a while, in a fresh process, while `disturb` disturbs them.
void play(const Call& call,
          const std::function<void(const std::function<void()>& calls)>& disturb) {
  const Outcome outcome = in_fresh_process(
      [&] {
        const Session session{"capacity=16M"};
        const Managed<char> memory{field_bytes};
        field.data = memory.data();
        const Managed<char> used{managed_bytes};
        Player player{session};
        player.memory = reinterpret_cast<CUdeviceptr>(used.data());
        WHERRY_TRY(cuMemAlloc(&player.device, region_bytes));
        WHERRY_TRY(cuEventCreate(&player.event, 0));
        const Thief thief(session);
        const auto length = std::chrono::milliseconds(static_cast<int>(1700 * scale()) + 100);
        disturb([&] {
          const auto end = std::chrono::steady_clock::now() + length;
          while (std::chrono::steady_clock::now() < end) call.make(player);
        });
        expect(field.touches > 0, "no handler accessed the field");
        ::_exit(0);
      },
      limit_ms);
  INFO(call.name << ": " << outcome.describe());
  CHECK(outcome.passed());
}

// ---- a garbage collector that stops the thread

std::atomic<bool> stopped = false;

void on_stop(int) {
  const int saved_errno = errno;
  sigset_t only_go;
  sigfillset(&only_go);
  sigdelset(&only_go, SIGUSR2);
  stopped = true;
  ::sigsuspend(&only_go);
  errno = saved_errno;
}
void on_go(int) {}

}  // namespace

TEST_CASE("a timer's handler may access managed memory inside every kind of call", "[system]") {
  for (const Call& call : calls)
    play(call, [](const std::function<void()>& make_calls) {
      const Storm storm;
      make_calls();
    });
}

TEST_CASE("a thread may be stopped inside every kind of call while others access managed memory",
          "[system]") {
  if (is_sanitized) {
    // The stopped thread may hold a lock of that heap when the library's threads need memory.
    WARN("left out: the library allocates from the sanitizer's heap, which has locks");
    return;
  }
  for (const Call& call : calls)
    play(call, [](const std::function<void()>& make_calls) {
      struct sigaction stop {};
      stop.sa_handler = on_stop;
      stop.sa_flags = SA_RESTART;
      sigfillset(&stop.sa_mask);
      struct sigaction go {};
      go.sa_handler = on_go;
      expect(::sigaction(SIGUSR1, &stop, nullptr) == 0 && ::sigaction(SIGUSR2, &go, nullptr) == 0,
             "sigaction");
      std::atomic<bool> over = false;
      const pthread_t mutator = ::pthread_self();
      std::thread collector([&] {
        while (!over) {
          stopped = false;
          ::pthread_kill(mutator, SIGUSR1);
          while (!stopped) std::this_thread::yield();
          for (int i = 0; i < 4; ++i) field.touch();
          ::pthread_kill(mutator, SIGUSR2);
          std::this_thread::sleep_for(std::chrono::microseconds(200));
        }
      });
      make_calls();
      over = true;
      collector.join();
    });
}

}  // namespace wherry::test::signal_storm_test
