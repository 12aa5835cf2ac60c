#include "streams/thread_target.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "os/memory/numa.h"
#include "os/process/poll.h"
#include "streams/device_engine.h"
#include "streams/serving_thread.h"
#include "support/catch.h"
#include "support/child.h"
#include "support/session.h"
#include "support/waiting.h"

namespace wherry::impl::thread_target_test {
namespace {

using test::comes_true;
using test::expect;
using test::in_fresh_process;

constexpr int ordinal = 3;

bool is_readable(int fd) {
  std::array<pollfd, 1> descriptor{{{fd, POLLIN, 0}}};
  return poll_descriptors(descriptor, 0) > 0;
}

// Whether the thread of this process sleeps in Linux.
bool sleeps(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string line;
  std::getline(file, line);
  return line.find(") S ") != std::string::npos;
}

// A target, and kernels that are lambdas of this program: their captures are pointers.
struct Fixture {
  explicit Fixture(int workers = 2, const std::vector<int>& cpus = {})
      : target(std::make_unique<ThreadTarget>(attached, WorkerOptions{ordinal, workers, cpus})) {}

  template <typename Function>
  void post(std::uint64_t id, std::size_t items, const Function& function, int priority = 0) {
    LaunchRequest request;
    request.id = id;
    request.address = *target->resolve(&call<Function>);
    request.args = &function;
    request.args_size = sizeof function;
    request.items = items;
    request.priority = priority;
    REQUIRE(target->try_post(request));
  }
  // Waits for the next launches to finish. Empty: none did within the limit.
  std::vector<std::uint64_t> completed() const {
    if (!comes_true([&] { return is_readable(target->completion_fd()); })) return {};
    return target->take_completed();
  }
  template <typename Function>
  void run(std::size_t items, const Function& function) {
    post(1, items, function);
    REQUIRE(completed() == std::vector<std::uint64_t>{1});
  }

  template <typename Function>
  static void call(const void* args, std::size_t begin, std::size_t end) {
    (*static_cast<const Function*>(args))(begin, end);
  }

  AttachedThreads attached{{}};
  std::unique_ptr<ThreadTarget> target;
};

TEST_CASE("Workers run every item of a launch once, with a copy of its arguments", "[streams]") {
  Fixture f(4);
  std::vector<std::atomic<int>> runs(1000);
  std::atomic<const void*> seen = nullptr;
  struct Kernel {
    std::vector<std::atomic<int>>* runs;
    std::atomic<const void*>* seen;
    void operator()(std::size_t begin, std::size_t end) const {
      *seen = this;
      for (std::size_t i = begin; i < end; ++i) ++(*runs)[i];
    }
  } const kernel{&runs, &seen};
  f.run(runs.size(), kernel);
  CHECK(std::all_of(runs.begin(), runs.end(), [](const auto& count) { return count == 1; }));
  CHECK(seen != nullptr);
  CHECK(seen != &kernel);
}

TEST_CASE("A launch is reported once, when its last piece has returned", "[streams]") {
  Fixture f(2);
  std::atomic<int> arrived = 0;
  std::atomic<bool> leave = false;
  f.post(7, 2, [&arrived, &leave](std::size_t begin, std::size_t) {
    ++arrived;
    while (begin == 0 && !leave) ::sched_yield();
  });
  REQUIRE(comes_true([&] { return arrived == 2; }));
  CHECK_FALSE(f.target->has_completed());
  CHECK(f.target->take_completed().empty());
  leave = true;
  CHECK(f.completed() == std::vector<std::uint64_t>{7});
  CHECK_FALSE(f.target->has_completed());
  CHECK_FALSE(is_readable(f.target->completion_fd()));
}

TEST_CASE("A launch of no items is reported without a kernel", "[streams]") {
  Fixture f(1);
  f.run(0, [](std::size_t, std::size_t) { std::abort(); });
}

TEST_CASE("Kernels run in this process, on threads that count as the device", "[streams]") {
  const int cpu = allowed_cpus().back();
  Fixture f(2, {cpu});
  struct Facts {
    AttachedThreads* attached = nullptr;
    pid_t process = 0;
    std::array<char, 16> name{};
    Processor counts_as;
    bool serves = false;
    bool only_cpu = false;
    bool has_signals = false;
    bool has_faults = false;
  } facts;
  facts.attached = &f.attached;
  f.run(1, [facts = &facts](std::size_t, std::size_t) {
    facts->process = ::getpid();
    ::pthread_getname_np(::pthread_self(), facts->name.data(), facts->name.size());
    facts->counts_as = facts->attached->processor_of(::gettid());
    facts->serves = serves_streams();
    facts->only_cpu = allowed_cpus().size() == 1;
    sigset_t blocked;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    facts->has_signals = ::sigismember(&blocked, SIGUSR1) == 0;
    facts->has_faults =
        ::sigismember(&blocked, SIGSEGV) == 0 && ::sigismember(&blocked, SIGBUS) == 0;
  });
  CHECK(facts.process == ::getpid());
  CHECK(f.target->pid() == ::getpid());
  const std::string name = facts.name.data();
  CHECK((name == "wherry-dev3-0" || name == "wherry-dev3-1"));
  CHECK(facts.counts_as == Processor::device(ordinal));
  CHECK(facts.serves);
  CHECK(facts.only_cpu);
  CHECK_FALSE(facts.has_signals);
  CHECK(facts.has_faults);
  CHECK_FALSE(serves_streams());
  CHECK(f.attached.processor_of(::gettid()) == Processor::host());
}

TEST_CASE("A launch marks a phase of the program", "[streams]") {
  Fixture f;
  const std::uint64_t before = f.attached.phases();
  f.run(1, [](std::size_t, std::size_t) {});
  CHECK(f.attached.phases() == before + 1);
}

TEST_CASE("A free worker takes the launch of the highest priority first", "[streams]") {
  Fixture f(1);
  std::atomic<bool> leave = false;
  std::atomic<bool> runs = false;
  f.post(1, 1, [&leave, &runs](std::size_t, std::size_t) {
    runs = true;
    while (!leave) ::sched_yield();
  });
  REQUIRE(comes_true([&] { return runs.load(); }));
  std::vector<int> order;
  f.post(
      2, 1, [&order](std::size_t, std::size_t) { order.push_back(0); }, 0);
  f.post(
      3, 1, [&order](std::size_t, std::size_t) { order.push_back(-5); }, greatest_priority);
  leave = true;
  std::set<std::uint64_t> done;
  while (done.size() < 3) {
    const auto next = f.completed();
    REQUIRE_FALSE(next.empty());
    done.insert(next.begin(), next.end());
  }
  CHECK(order == std::vector<int>{-5, 0});
}

TEST_CASE("A target that is destroyed waits for running kernels and runs no others", "[streams]") {
  Fixture f(1);
  std::atomic<bool> runs = false;
  std::atomic<bool> leave = false;
  std::atomic<bool> returns = false;
  std::atomic<bool> next_ran = false;
  f.post(1, 1, [&](std::size_t, std::size_t) {
    runs = true;
    while (!leave) ::sched_yield();
    returns = true;
  });
  f.post(2, 1, [&next_ran](std::size_t, std::size_t) { next_ran = true; });
  REQUIRE(comes_true([&] { return runs.load(); }));
  std::atomic<pid_t> destroyer = 0;
  std::thread destroys([&] {
    destroyer = ::gettid();
    f.target.reset();
    destroyer = 0;
  });
  // The destroying thread sleeps only while it waits for the worker that runs the kernel.
  REQUIRE(comes_true([&] { return destroyer != 0 && sleeps(destroyer); }));
  CHECK(destroyer != 0);
  leave = true;
  destroys.join();
  CHECK(returns);
  CHECK_FALSE(next_ran);
  CHECK_FALSE(f.attached.any());
}

TEST_CASE("Workers that wait for launches end when their target is destroyed", "[streams]") {
  for (int i = 0; i < 20; ++i) {
    Fixture f(4);
    // In every fourth round the workers have time to fall asleep before the target ends.
    if (i % 4 == 0) ::usleep(1000);
    f.target.reset();
    CHECK_FALSE(f.attached.any());
  }
}

TEST_CASE("A target whose workers cannot be attached is not made", "[streams]") {
  AttachedThreads attached({}, 2);
  CHECK_THROWS_AS(ThreadTarget(attached, WorkerOptions{0, 3, {}}), std::system_error);
  CHECK_FALSE(attached.any());
  const ThreadTarget fits(attached, WorkerOptions{0, 2, {}});
  CHECK(attached.any());
}

TEST_CASE("An engine runs work on threads as on a device process", "[streams]") {
  AttachedThreads attached({});
  DeviceEngine engine(ordinal);
  auto target = std::make_shared<ThreadTarget>(attached, WorkerOptions{ordinal, 3, {}});
  engine.attach(target);
  const auto context = engine.create_context();
  const auto stream = engine.create_stream(context, StreamKind::non_blocking);
  static std::vector<int> values;
  values.assign(100, 0);
  const auto add = [](const void*, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) values[i] = 2 * values[i] + 1;
  };
  for (int i = 0; i < 5; ++i) {
    REQUIRE(engine.launch(stream, add, {}, values.size()) == WorkStatus::ok);
  }
  CHECK(engine.wait(stream) == WorkStatus::ok);
  CHECK(std::all_of(values.begin(), values.end(), [](int value) { return value == 31; }));

  // As a reset does: the context fails with its unfinished work, and the next target takes over.
  engine.detach(context);
  target.reset();
  engine.attach(std::make_shared<ThreadTarget>(attached, WorkerOptions{ordinal, 1, {}}));
  REQUIRE(engine.launch(engine.default_stream(*context), add, {}, values.size()) == WorkStatus::ok);
  CHECK(engine.wait_all(context) == WorkStatus::ok);
  CHECK(values.front() == 63);
}

// Runs the kernel in a process of its own, which is expected to die of it.
test::Outcome outcome_of(KernelFunction kernel) {
  return in_fresh_process([kernel] {
    auto& attached = *new AttachedThreads({});
    ThreadTarget target(attached, WorkerOptions{0, 1, {}});
    LaunchRequest request;
    request.address = *target.resolve(kernel);
    request.items = 1;
    expect(target.try_post(request), "not posted");
    comes_true([&] { return target.has_completed(); });
    std::exit(9);
  });
}

TEST_CASE("The failure of a kernel is the program's own", "[streams]") {
  const auto threw = outcome_of(
      [](const void*, std::size_t, std::size_t) { throw std::runtime_error("of a kernel"); });
  INFO(threw.describe());
  CHECK(threw.signal == SIGABRT);
  CHECK(threw.err.find("of a kernel") != std::string::npos);

  const auto exits_thread =
      outcome_of([](const void*, std::size_t, std::size_t) { ::pthread_exit(nullptr); });
  INFO(exits_thread.describe());
  CHECK(exits_thread.signal == SIGABRT);

  const auto crashed = outcome_of([](const void*, std::size_t, std::size_t) { ::raise(SIGKILL); });
  CHECK(crashed.signal == SIGKILL);

  const auto exited = outcome_of([](const void*, std::size_t, std::size_t) { std::exit(5); });
  INFO(exited.describe());
  CHECK(exited.exit_code == 5);
}

TEST_CASE("A program exits while kernels run forever", "[streams]") {
  const auto outcome = in_fresh_process([] {
    auto& attached = *new AttachedThreads({});
    auto& target = *new ThreadTarget(attached, WorkerOptions{0, 2, {}});
    static std::atomic<int> running = 0;
    LaunchRequest request;
    request.address = *target.resolve([](const void*, std::size_t, std::size_t) {
      ++running;
      for (;;) ::sched_yield();
    });
    request.items = 2;
    expect(target.try_post(request), "not posted");
    expect(comes_true([] { return running == 2; }), "no kernel runs");
    std::exit(3);
  });
  INFO(outcome.describe());
  CHECK(outcome.exit_code == 3);
}

}  // namespace
}  // namespace wherry::impl::thread_target_test
