#include "trap/attached_threads.h"

#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <latch>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "os/memory/numa.h"
#include "os/process/current_cpu.h"
#include "os/process/thread.h"
#include "support/catch.h"
#include "support/child.h"
#include "support/conditions.h"
#include "support/session.h"

namespace wherry::impl::attached_threads_test {
namespace {

using test::expect;
using test::in_fresh_process;

constexpr Processor first = Processor::device(0);
constexpr Processor second = Processor::device(1);

// A table in which a CPU stands for the device; all other CPUs are the host's.
std::vector<Processor> only(int cpu, Processor device) {
  std::vector<Processor> table(static_cast<std::size_t>(cpu) + 1, Processor::host());
  table.back() = device;
  return table;
}

std::vector<Processor> every_cpu(Processor device) {
  return std::vector<Processor>(CPU_SETSIZE, device);
}

void in_new_thread(const std::function<void()>& body) {
  std::thread(body).join();
}

// A thread that runs until it is told to end.
class Visitor {
 public:
  explicit Visitor(const std::function<void()>& begin)
      : thread_([this, begin] {
          begin();
          id_ = ::gettid();
          began_.count_down();
          end_.wait();
        }) {
    began_.wait();
  }
  ~Visitor() { end(); }
  void end() {
    if (!thread_.joinable()) return;
    end_.count_down();
    thread_.join();
  }
  pid_t id() const { return id_; }

 private:
  std::latch began_{1};
  std::latch end_{1};
  std::atomic<pid_t> id_ = 0;
  std::thread thread_;
};

TEST_CASE("A thread counts as the host before it is attached and after it is detached") {
  AttachedThreads table({});
  const pid_t me = ::gettid();
  CHECK_FALSE(table.any());
  CHECK(table.processor_of(me) == Processor::host());
  CHECK(table.mine().counts_as == Processor::host());
  CHECK(table.detach() == EINVAL);
  CHECK(table.phases() == 0);

  REQUIRE(table.attach(second) == 0);
  CHECK(table.any());
  CHECK(table.processor_of(me) == second);
  CHECK(table.mine().counts_as == second);
  CHECK_FALSE(table.mine().by_cpu);

  REQUIRE(table.detach() == 0);
  CHECK_FALSE(table.any());
  CHECK(table.processor_of(me) == Processor::host());
  CHECK(table.detach() == EINVAL);
}

TEST_CASE("An attachment replaces the previous one of the same thread, and only that") {
  AttachedThreads table(every_cpu(second));
  const Visitor other([&] { expect(table.attach(second) == 0, "not attached"); });
  REQUIRE(table.attach(second) == 0);
  REQUIRE(table.attach(first) == 0);
  CHECK(table.processor_of(::gettid()) == first);
  REQUIRE(table.attach_by_cpu() == 0);
  CHECK(table.mine().by_cpu);
  CHECK(table.processor_of(::gettid()) == second);
  REQUIRE(table.attach(first) == 0);
  CHECK_FALSE(table.mine().by_cpu);
  CHECK(table.processor_of(::gettid()) == first);
  CHECK(table.processor_of(other.id()) == second);
  REQUIRE(table.detach() == 0);
  CHECK(table.processor_of(::gettid()) == Processor::host());
  CHECK(table.processor_of(other.id()) == second);
}

TEST_CASE("Each attachment and each end of one marks a phase") {
  AttachedThreads table({});
  std::uint64_t before = table.phases();
  const auto changed = [&] { return std::exchange(before, table.phases()) < table.phases(); };
  REQUIRE(table.attach(first) == 0);
  CHECK(changed());
  REQUIRE(table.attach(second) == 0);
  CHECK(changed());
  REQUIRE(table.detach() == 0);
  CHECK(changed());
  in_new_thread([&] { expect(table.attach(first) == 0, "not attached"); });
  CHECK(changed());
  CHECK_FALSE(changed());
}

TEST_CASE("A thread that ends is detached, also one in by-CPU mode") {
  AttachedThreads table(every_cpu(first));
  Visitor fixed([&] { expect(table.attach(second) == 0, "not attached"); });
  Visitor by_cpu([&] { expect(table.attach_by_cpu() == 0, "not attached"); });
  CHECK(table.processor_of(fixed.id()) == second);
  CHECK(table.processor_of(by_cpu.id()) == first);
  fixed.end();
  CHECK(table.processor_of(fixed.id()) == Processor::host());
  CHECK(table.any());
  by_cpu.end();
  CHECK(table.processor_of(by_cpu.id()) == Processor::host());
  CHECK_FALSE(table.any());
}

TEST_CASE("A thread whose end has detached it cannot attach again") {
  AttachedThreads table(every_cpu(first));
  // Destructors of keys run after those of thread-local variables.
  struct Late {
    AttachedThreads& table;
    int attached = -1;
    int detached = -1;
  } late{table};
  pthread_key_t key;
  REQUIRE(::pthread_key_create(&key, [](void* pointer) {
            auto* object = static_cast<Late*>(pointer);
            object->attached = object->table.attach(first);
            object->detached = object->table.detach();
          }) == 0);
  in_new_thread([&] {
    ::pthread_setspecific(key, &late);
    expect(table.attach(first) == 0, "not attached");
  });
  ::pthread_key_delete(key);
  CHECK(late.attached == ESRCH);
  CHECK(late.detached == EINVAL);
  CHECK_FALSE(table.any());
}

TEST_CASE("In by-CPU mode a thread counts as what the CPU is on which it runs now") {
  const std::vector<int> cpus = allowed_cpus();
  AttachedThreads table(only(cpus.front(), second));
  const auto pin = [](int cpu) { expect(pin_this_thread(std::vector<int>{cpu}), "not pinned"); };
  const auto attach = [&] { expect(table.attach_by_cpu() == 0, "not attached"); };
  const Visitor stays([&] { pin(cpus.front()), attach(); });
  CHECK(table.processor_of(stays.id()) == second);
  if (cpus.size() == 1) return;
  const Visitor comes([&] { pin(cpus.back()), attach(), pin(cpus.front()); });
  CHECK(table.processor_of(comes.id()) == second);
  // A CPU that the table does not contain.
  const Visitor goes([&] { pin(cpus.front()), attach(), pin(cpus.back()); });
  CHECK(table.processor_of(goes.id()) == Processor::host());
}

TEST_CASE("By-CPU mode needs a CPU of a device") {
  AttachedThreads table(every_cpu(Processor::host()));
  CHECK(table.attach_by_cpu() == ENODEV);
  CHECK_FALSE(table.any());
  CHECK(table.phases() == 0);
}

TEST_CASE("The CPU of the calling thread is where Linux says") {
  const int cpu = allowed_cpus().back();
  in_new_thread([&] {
    expect(pin_this_thread(std::vector<int>{cpu}), "not pinned");
    const std::uint32_t* word = current_cpu_word();
    expect(word != nullptr, "no rseq area");
    expect(read_cpu(word) == cpu, "another CPU");
  });
}

TEST_CASE("A full table refuses another thread, but not another device for one that it has") {
  AttachedThreads table({}, 3);
  std::vector<std::unique_ptr<Visitor>> visitors;
  for (int i = 0; i < 3; ++i) {
    visitors.push_back(
        std::make_unique<Visitor>([&] { expect(table.attach(first) == 0, "not attached"); }));
  }
  CHECK(table.attach(first) == EAGAIN);
  CHECK(table.processor_of(::gettid()) == Processor::host());
  CHECK(table.detach() == EINVAL);
  visitors.pop_back();
  REQUIRE(table.attach(first) == 0);
  CHECK(table.attach(second) == 0);
  CHECK(table.processor_of(::gettid()) == second);
  CHECK(table.detach() == 0);
}

TEST_CASE("A small table finds its threads while others come and go") {
  constexpr std::size_t places = 4;
  AttachedThreads table({}, places);
  std::mt19937_64 random(test::seed());
  std::vector<std::unique_ptr<Visitor>> visitors;
  std::vector<Processor> devices;
  std::vector<pid_t> gone;
  for (std::uint64_t i = 0; i < test::scaled(3000); ++i) {
    if (visitors.size() < places && (visitors.empty() || random() % 2 == 0)) {
      devices.push_back(Processor::device(static_cast<int>(random() % max_devices)));
      visitors.push_back(std::make_unique<Visitor>(
          [&] { expect(table.attach(devices.back()) == 0, "not attached"); }));
      std::erase(gone, visitors.back()->id());
      if (gone.size() > 20) gone.erase(gone.begin());
    } else {
      const auto which = static_cast<std::ptrdiff_t>(random() % visitors.size());
      gone.push_back(visitors[static_cast<std::size_t>(which)]->id());
      visitors.erase(visitors.begin() + which);
      devices.erase(devices.begin() + which);
    }
    for (std::size_t at = 0; at < visitors.size(); ++at)
      REQUIRE(table.processor_of(visitors[at]->id()) == devices[at]);
    for (const pid_t id : gone) REQUIRE(table.processor_of(id) == Processor::host());
    // No thread has these ids. Linux tells 0 where it does not tell the thread.
    REQUIRE(table.processor_of(0) == Processor::host());
    REQUIRE(table.processor_of(-1) == Processor::host());
  }
}

// Runs the body in a thread whose stack is unmapped when it ends: the stack is too large for the C
// library to keep it for another thread.
void in_thread_of_its_own_memory(const std::function<void()>& body) {
  constexpr std::size_t beyond_the_cache = std::size_t{64} << 20;
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, beyond_the_cache);
  pthread_t thread;
  const int error = ::pthread_create(
      &thread, &attributes,
      [](void* what) -> void* {
        (*static_cast<const std::function<void()>*>(what))();
        return nullptr;
      },
      const_cast<std::function<void()>*>(&body));
  ::pthread_attr_destroy(&attributes);
  expect(error == 0, "no thread");
  ::pthread_join(thread, nullptr);
}

TEST_CASE("A lookup never reads the memory of a thread that has ended") {
  AttachedThreads table(every_cpu(second), 1);
  std::atomic<bool> over = false;
  std::atomic<pid_t> id = 1;
  std::atomic<std::uint64_t> found = 0;
  const auto look_up = [&] {
    while (!over) {
      const Processor p = table.processor_of(id);
      if (p == second) found.fetch_add(1);
      expect(p == second || p.is_host(), "a processor that nothing names");
    }
  };
  std::thread reader(look_up);
  std::thread other_reader(look_up);
  // On a busy machine the readers may begin late.
  for (std::uint64_t i = 0; i < test::scaled(3000) || (found == 0 && i < 100'000); ++i) {
    in_thread_of_its_own_memory([&] {
      id = ::gettid();
      expect(table.attach_by_cpu() == 0, "not attached");
      if (i % 2 == 0) expect(table.detach() == 0, "not detached");
    });
  }
  over = true;
  reader.join();
  other_reader.join();
  CHECK(found != 0);
  CHECK_FALSE(table.any());
}

TEST_CASE("In a forked child no thread is attached, and none can be") {
  const auto outcome = in_fresh_process([] {
    auto& table = *new AttachedThreads(every_cpu(first));
    expect(table.attach_by_cpu() == 0, "not attached");
    const pid_t parent = ::gettid();
    const pid_t child = ::fork();
    if (child == 0) {
      expect(!table.any(), "some thread is attached");
      expect(table.processor_of(parent).is_host(), "the parent is attached");
      expect(table.processor_of(::gettid()).is_host(), "the child is attached");
      expect(table.mine().counts_as.is_host() && !table.mine().by_cpu, "the child knows better");
      expect(table.detach() == EINVAL, "detached");
      expect(table.attach(second) == EPERM, "attached");
      expect(table.attach_by_cpu() == EPERM, "attached by CPU");
      // Runs the destructors of this thread, too.
      std::exit(0);
    }
    int status = -1;
    expect(::waitpid(child, &status, 0) == child && status == 0, "the child failed");
    expect(table.processor_of(parent) == first, "the parent lost its attachment");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

}  // namespace
}  // namespace wherry::impl::attached_threads_test
