// What the program may be doing when it accesses managed memory: it may be inside its own malloc,
// holding malloc's lock, or on a small stack. Where the faulting thread answers its own fault, the
// library may neither allocate nor wait for such a lock. This program replaces malloc and checks
// that.
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <optional>
#include <thread>

#include "support/catch.h"
#include "support/child.h"
#include "support/libc_allocator.h"
#include "support/session.h"

namespace {

[[noreturn]] void fail(const char* why) {
  (void)!::write(STDERR_FILENO, why, std::strlen(why));
  ::_exit(71);
}

// This thread accesses managed memory, or answers its own fault.
thread_local bool in_touch = false;
thread_local volatile char* touched_in_allocator = nullptr;
thread_local char me = 0;  // its address identifies the thread

// A lock that fails the test when a thread takes it twice.
class AllocatorLock {
 public:
  void lock() {
    for (const char* nobody = nullptr; !holder_.compare_exchange_weak(nobody, &me);
         nobody = nullptr) {
      if (nobody == &me) fail("malloc was called by a thread that holds its lock\n");
      ::sched_yield();
    }
  }
  void unlock() { holder_ = nullptr; }

 private:
  std::atomic<const char*> holder_{nullptr};
} allocator_lock;

class Allocating {
 public:
  Allocating() {
    if (in_touch) fail("an access to managed memory allocates\n");
    if (is_fault_handler()) fail("a fault handler allocates\n");
    allocator_lock.lock();
    if (touched_in_allocator == nullptr) return;
    in_touch = true;
    *touched_in_allocator = static_cast<char>(*touched_in_allocator + 1);
    in_touch = false;
  }
  ~Allocating() { allocator_lock.unlock(); }

 private:
  // Whether this is a fault handler of the library. A thread that waits for the handler may hold
  // malloc's lock.
  static bool is_fault_handler() {
    char name[16] = {};
    ::prctl(PR_GET_NAME, name);
    return std::strncmp(name, "wherry-fault", 12) == 0;
  }
};

}  // namespace

extern "C" {
void* malloc(size_t bytes) {
  const Allocating guard;
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  const Allocating guard;
  return __libc_calloc(count, bytes);
}
void* realloc(void* old, size_t bytes) {
  const Allocating guard;
  return __libc_realloc(old, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  const Allocating guard;
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  return memalign(alignment, bytes);
}
int posix_memalign(void** result, size_t alignment, size_t bytes) {
  *result = memalign(alignment, bytes);
  return *result == nullptr ? ENOMEM : 0;
}
void free(void* old) {
  if (old == nullptr) return;
  const Allocating guard;
  __libc_free(old);
}
}

namespace wherry::test {
namespace {

constexpr std::size_t page_bytes = 4096;
constexpr std::size_t pages = 256;
constexpr const char* one_device = "capacity=4M";

// Where the accessed pages are, which decides what the fault has to do.
enum class Place {
  nowhere,
  device,
  copies,     // here and at the device; a write drops the device's copies
  remote,     // at the device, which is their preferred location
  contended,  // a kernel writes them continuously
};

class Field {
 public:
  Field(const Session& session, Place place) : session_(session), memory_(pages * page_bytes) {
    const auto start = reinterpret_cast<CUdeviceptr>(memory_.data());
    const CUmemLocation device{CU_MEM_LOCATION_TYPE_DEVICE, 0};
    if (place == Place::copies)
      WHERRY_TRY(cuMemAdvise(start, memory_.bytes(), CU_MEM_ADVISE_SET_READ_MOSTLY, device));
    if (place == Place::remote)
      WHERRY_TRY(cuMemAdvise(start, memory_.bytes(), CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device));
    if (place != Place::nowhere)
      session_.run(0, [to = memory_.data()] { std::memset(to, 1, pages * page_bytes); });
    if (place == Place::copies) {
      char sum = 0;
      for (std::size_t page = 0; page < pages; ++page) sum = static_cast<char>(sum + *at(page));
      expect(sum == static_cast<char>(pages), "copies");
    }
    if (place != Place::contended) return;
    stop_.emplace(1);
    (*stop_)[0] = 0;
    session_.launch(0, 1, [to = memory_.data(), stop = stop_->data()](std::size_t) {
      while (__atomic_load_n(stop, __ATOMIC_RELAXED) == 0)
        for (std::size_t page = 0; page < pages; ++page)
          __atomic_fetch_add(to + page * page_bytes + 64, 1, __ATOMIC_RELAXED);
    });
  }
  ~Field() {
    if (!stop_) return;
    __atomic_store_n(stop_->data(), 1, __ATOMIC_RELAXED);
    (void)session_.wait(0);
  }

  volatile char* at(std::size_t page) const { return memory_.data() + page * page_bytes; }

 private:
  const Session& session_;
  const Managed<char> memory_;
  std::optional<Managed<int>> stop_;
};

constexpr Place places[] = {Place::nowhere, Place::device, Place::copies, Place::remote,
                            Place::contended};

// Runs `touch`, which must increment each page exactly once, and checks the pages.
void in_place(Place place, const std::function<void(const Field&)>& touch) {
  const Outcome outcome = in_fresh_process([&] {
    const Session session{one_device};
    const Field field{session, place};
    touch(field);
    for (std::size_t page = 0; page < pages; ++page)
      expect(*field.at(page) == (place == Place::nowhere ? 1 : 2), "a page has another value");
  });
  INFO("place " << static_cast<int>(place) << ": " << outcome.describe());
  CHECK(outcome.passed());
}

void in_all_places(const std::function<void(const Field&)>& touch) {
  for (const Place place : places) in_place(place, touch);
}

void touch_all(const Field& field) {
  in_touch = true;
  for (std::size_t page = 0; page < pages; ++page)
    *field.at(page) = static_cast<char>(*field.at(page) + 1);
  in_touch = false;
}

}  // namespace

TEST_CASE("an access to managed memory does not allocate in the accessing thread", "[system]") {
  in_all_places(touch_all);
}

TEST_CASE("the program's malloc may access managed memory while it holds its lock", "[system]") {
  in_all_places([](const Field& field) {
    for (std::size_t page = 0; page < pages; ++page) {
      touched_in_allocator = field.at(page);
      void* const piece = malloc(100);
      touched_in_allocator = nullptr;
      free(piece);
    }
  });
}

TEST_CASE("a thread accesses managed memory while another one holds the lock of malloc",
          "[system]") {
  in_all_places([](const Field& field) {
    std::atomic<bool> ready{false}, go{false}, done{false};
    std::thread touching([&] {
      ready = true;
      while (!go) ::sched_yield();
      touch_all(field);
      done = true;
    });
    while (!ready) ::sched_yield();
    allocator_lock.lock();
    go = true;
    while (!done) ::sched_yield();
    allocator_lock.unlock();
    touching.join();
  });
}

TEST_CASE("a thread with the smallest stack accesses managed memory", "[system]") {
  in_all_places([](const Field& field) {
    pthread_attr_t attributes;
    expect(pthread_attr_init(&attributes) == 0, "attributes");
    expect(pthread_attr_setstacksize(
               &attributes, static_cast<std::size_t>(::sysconf(_SC_THREAD_STACK_MIN))) == 0,
           "the size of the stack");
    pthread_t thread;
    const auto body = [](void* of) -> void* {
      touch_all(*static_cast<const Field*>(of));
      return nullptr;
    };
    expect(pthread_create(&thread, &attributes, body, const_cast<Field*>(&field)) == 0, "a thread");
    expect(pthread_join(thread, nullptr) == 0, "the thread cannot be joined");
  });
}

TEST_CASE("a handler on an alternate stack, usual or large, accesses managed memory", "[system]") {
  const auto stacks = GENERATE(std::size_t{1}, std::size_t{8});
  const std::size_t size = stacks * static_cast<std::size_t>(::sysconf(_SC_SIGSTKSZ));
  in_all_places([size](const Field& field) {
    constexpr std::size_t guard = 1 << 16;
    void* const area =
        ::mmap(nullptr, guard + size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    expect(area != MAP_FAILED && ::mprotect(area, guard, PROT_NONE) == 0, "a guarded stack");
    const stack_t alternate{static_cast<char*>(area) + guard, 0, size};
    expect(::sigaltstack(&alternate, nullptr) == 0, "sigaltstack");
    static const Field* touched;
    touched = &field;
    struct sigaction action {};
    action.sa_handler = [](int) { touch_all(*touched); };
    action.sa_flags = SA_ONSTACK;
    expect(::sigaction(SIGUSR1, &action, nullptr) == 0, "sigaction");
    expect(::raise(SIGUSR1) == 0, "raise");
  });
}

}  // namespace wherry::test
