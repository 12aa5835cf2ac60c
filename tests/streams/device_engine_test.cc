#include "streams/device_engine.h"

#include <atomic>
#include <future>
#include <random>
#include <thread>

#include "streams/bench.h"
#include "streams/serving_thread.h"
#include "support/catch.h"
#include "support/conditions.h"

namespace wherry::test::device_engine_test {

using namespace wherry::impl;
using namespace std::chrono_literals;

TEST_CASE("a kernel on an idle stream is posted to the device when launch returns", "[streams]") {
  Bench bench;
  const auto stream = bench.stream();
  const std::byte args[3] = {std::byte{1}, std::byte{2}, std::byte{3}};
  CHECK(bench.engine.launch(stream, some_kernel, {args, args + 3}, 7) == WorkStatus::ok);
  const auto running = bench.target->running();
  REQUIRE(running.size() == 1);
  CHECK(running[0].items == 7);
  CHECK(running[0].kernel == reinterpret_cast<std::uintptr_t>(&some_kernel));
  CHECK(running[0].args == std::vector<std::byte>(args, args + 3));
}

TEST_CASE("a launch of no items runs nothing", "[streams]") {
  Bench bench;
  const auto stream = bench.stream();
  CHECK(bench.launch(stream, 0) == WorkStatus::ok);
  CHECK(bench.target->posted() == 0);
  CHECK(bench.engine.query(stream) == StreamState::idle);
}

TEST_CASE("a kernel that the device does not know is refused without other effects", "[streams]") {
  Bench bench;
  bench.target->know_no_kernels();
  const auto stream = bench.stream();
  CHECK(bench.launch(stream, 1) == WorkStatus::unknown_kernel);
  CHECK(bench.engine.status(*bench.context) == WorkStatus::ok);
  CHECK(bench.engine.query(stream) == StreamState::idle);
}

TEST_CASE("the next kernel of a stream is posted when the previous one has finished", "[streams]") {
  Bench bench;
  const auto stream = bench.stream();
  for (std::size_t items = 1; items <= 3; ++items) bench.launch(stream, items);
  CHECK(bench.running() == Sizes{1});
  // No thread waits: the engine's own thread has to notice.
  bench.finish(1);
  REQUIRE(bench.target->wait_for_running(1));
  CHECK(bench.running() == Sizes{2});
  bench.finish(2);
  REQUIRE(bench.target->wait_for_running(1));
  CHECK(bench.running() == Sizes{3});
  CHECK(bench.engine.query(stream) == StreamState::busy);
  bench.finish(3);
  CHECK(bench.engine.query(stream) == StreamState::idle);
}

TEST_CASE("kernels of several streams run at the same time", "[streams]") {
  Bench bench;
  const auto first = bench.stream();
  const auto second = bench.stream();
  bench.launch(first, 1);
  bench.launch(second, 2);
  CHECK(bench.running() == Sizes{1, 2});
  bench.finish(2);
  CHECK(bench.engine.query(second) == StreamState::idle);
  CHECK(bench.engine.query(first) == StreamState::busy);
}

TEST_CASE("a host function runs between the kernels around it", "[streams]") {
  Bench bench;
  const auto stream = bench.stream();
  Gate gate;
  bench.launch(stream, 1);
  REQUIRE(bench.engine.launch_host(stream, Gate::pass, &gate) == WorkStatus::ok);
  bench.launch(stream, 2);
  CHECK_FALSE(gate.ran);
  bench.finish(1);
  REQUIRE(gate.entered.get_future().wait_for(10s) == std::future_status::ready);
  CHECK(bench.target->posted() == 1);
  CHECK(bench.engine.query(stream) == StreamState::busy);
  gate.leave.set_value();
  REQUIRE(bench.target->wait_for_running(1));
  CHECK(bench.running() == Sizes{2});
}

TEST_CASE("host functions run on threads that are marked as the library's", "[streams]") {
  Bench bench;
  const auto stream = bench.stream();
  std::promise<bool> answer;
  bench.engine.launch_host(
      stream,
      [](void* data) { static_cast<std::promise<bool>*>(data)->set_value(serves_streams()); },
      &answer);
  CHECK(answer.get_future().get());
  CHECK_FALSE(serves_streams());
}

TEST_CASE("an operation begins in its turn, and later work waits until it has ended", "[streams]") {
  Bench bench;
  const auto stream = bench.stream();
  OperationRecord operation;
  bench.launch(stream, 1);
  REQUIRE(bench.engine.enqueue_operation(stream, operation.operation()) == WorkStatus::ok);
  bench.launch(stream, 2);
  CHECK_FALSE(operation.begun);
  bench.finish(1);
  CHECK(comes_true(operation.begun));
  CHECK(bench.engine.query(stream) == StreamState::busy);
  CHECK(bench.running().empty());
  std::thread(operation.done).join();
  REQUIRE(bench.target->wait_for_running(1));
  CHECK(bench.running() == Sizes{2});
}

TEST_CASE("an operation may end before its start returns", "[streams]") {
  Bench bench;
  const auto stream = bench.stream();
  bench.engine.enqueue_operation(stream, [](const Completion& done) { done(); });
  bench.launch(stream, 1);
  CHECK(bench.running() == Sizes{1});
}

TEST_CASE("a thread that waits for a stream is woken by the end of its operation", "[streams]") {
  Bench bench;
  const auto stream = bench.stream();
  OperationRecord operation;
  bench.engine.enqueue_operation(stream, operation.operation());
  auto waiting = std::async(std::launch::async, [&] { return bench.engine.wait(stream); });
  CHECK(waiting.wait_for(20ms) == std::future_status::timeout);
  operation.done();
  CHECK(waiting.get() == WorkStatus::ok);
}

TEST_CASE("an operation that has begun is waited for, even if its device ends", "[streams]") {
  OperationRecord old;
  OperationRecord later;
  Bench bench;
  const auto stream = bench.stream();
  const auto ends_with_the_operation = [&](auto call) {
    auto calling = std::async(std::launch::async, std::move(call));
    CHECK(calling.wait_for(20ms) == std::future_status::timeout);
    old.done();
    return calling.get();
  };
  bench.engine.enqueue_operation(stream, old.operation());

  SECTION("its device dies") {
    bench.target->die(failure_of(DeviceFailure::Kind::lost, 0));
    CHECK(ends_with_the_operation([&] { return bench.engine.wait(stream); }) ==
          WorkStatus::launch_failed);
    bench.engine.detach(bench.context);
  }
  SECTION("its device is replaced") {
    ends_with_the_operation([&] {
      bench.engine.detach(bench.context);
      return 0;
    });
  }
  bench.engine.attach(std::make_shared<FakeTarget>());
  bench.engine.enqueue_operation(stream, later.operation());
  REQUIRE(later.begun);
  old.done();  // the second call changes nothing
  CHECK(bench.engine.query(stream) == StreamState::busy);
  later.done();
  CHECK(bench.engine.query(stream) == StreamState::idle);
}

TEST_CASE("an operation that fails fails its context, and later work is not begun", "[streams]") {
  Bench bench;
  const auto stream = bench.stream();
  OperationRecord operation;
  OperationRecord later;
  bench.engine.enqueue_operation(stream, operation.operation());
  bench.engine.enqueue_operation(stream, later.operation());
  operation.done(WorkStatus::illegal_address);
  CHECK(bench.engine.wait(stream) == WorkStatus::illegal_address);
  CHECK_FALSE(later.begun);
  CHECK(bench.engine.status(*bench.context) == WorkStatus::illegal_address);
  CHECK(bench.engine.enqueue_operation(stream, later.operation()) == WorkStatus::illegal_address);
}

TEST_CASE("work that the caller runs inline has its turn in the stream, and others wait for it",
          "[streams]") {
  Bench bench;
  const auto stream = bench.stream();
  bench.launch(stream, 1);
  std::atomic<bool> begun = false;
  std::atomic<bool> may_end = false;
  auto inline_run = std::async(std::launch::async, [&] {
    return bench.engine.run_inline(stream, [&] {
      begun = true;
      comes_true(may_end);
    });
  });
  std::this_thread::sleep_for(20ms);
  CHECK_FALSE(begun);
  bench.finish(1);
  REQUIRE(comes_true(begun));
  bench.launch(stream, 2);
  CHECK(bench.running().empty());
  may_end = true;
  CHECK(inline_run.get() == WorkStatus::ok);
  CHECK(bench.target->wait_for_running(1));
  bench.finish(2);
  CHECK(bench.engine.wait(stream) == WorkStatus::ok);
  // In an idle stream the caller runs it at once.
  bool done = false;
  CHECK(bench.engine.run_inline(stream, [&] { done = true; }) == WorkStatus::ok);
  CHECK(done);
  CHECK(bench.engine.query(stream) == StreamState::idle);
}

TEST_CASE("work that the caller may run inline is enqueued if the stream is busy", "[streams]") {
  Bench bench;
  const auto stream = bench.stream();
  OperationRecord operation;
  WorkStatus answer = WorkStatus::ok;
  int done = 0;
  const auto run_or_enqueue = [&] {
    return bench.engine.run_inline_or_enqueue(
        stream,
        [&] {
          ++done;
          return answer;
        },
        operation.operation());
  };
  CHECK(run_or_enqueue() == WorkStatus::ok);
  CHECK(done == 1);
  CHECK(bench.engine.query(stream) == StreamState::idle);
  bench.launch(stream, 1);
  CHECK(run_or_enqueue() == WorkStatus::ok);
  CHECK(done == 1);
  CHECK_FALSE(operation.begun);
  bench.finish(1);
  CHECK(comes_true(operation.begun));
  operation.done();
  CHECK(bench.engine.wait(stream) == WorkStatus::ok);
  CHECK(done == 1);
  answer = WorkStatus::launch_failed;
  CHECK(run_or_enqueue() == WorkStatus::ok);
  CHECK(done == 2);
  CHECK(bench.engine.wait(stream) == WorkStatus::launch_failed);
  CHECK(run_or_enqueue() == WorkStatus::launch_failed);
  CHECK(done == 2);
}

TEST_CASE("work that the caller would run inline after failed work is not begun", "[streams]") {
  Bench bench;
  const auto stream = bench.stream();
  bench.launch(stream, 1);
  bool done = false;
  auto inline_run = std::async(
      std::launch::async, [&] { return bench.engine.run_inline(stream, [&] { done = true; }); });
  CHECK(inline_run.wait_for(20ms) == std::future_status::timeout);
  bench.target->die(failure_of(DeviceFailure::Kind::lost, 0));
  CHECK(inline_run.get() == WorkStatus::launch_failed);
  CHECK_FALSE(done);
  CHECK(bench.engine.run_inline(stream, [&] { done = true; }) == WorkStatus::launch_failed);
  CHECK_FALSE(done);
}

TEST_CASE("an operation may end after its engine has been destroyed", "[streams]") {
  OperationRecord operation;
  {
    Bench bench;
    bench.engine.enqueue_operation(bench.stream(), operation.operation());
  }
  operation.done();
}

TEST_CASE("ten thousand operations that end at once do not overflow the stack", "[streams]") {
  Bench bench;
  const auto stream = bench.stream();
  bench.launch(stream, 1);
  for (int i = 0; i < 10'000; ++i) {
    bench.engine.enqueue_operation(stream, [](const Completion& done) { done(); });
  }
  bench.finish(1);
  CHECK(bench.engine.wait(stream) == WorkStatus::ok);
}

TEST_CASE("a stream's prefetch epoch changes with its launches, separately for each stream",
          "[streams]") {
  Bench bench;
  const auto stream = bench.stream();
  const auto other = bench.stream();
  const std::uint32_t first = bench.engine.prefetch_epoch(stream);
  CHECK(first != 0);
  CHECK(bench.engine.prefetch_epoch(stream) == first);
  CHECK(bench.engine.prefetch_epoch(other) != first);
  bench.engine.enqueue_operation(stream, [](const Completion& done) { done(); });
  CHECK(bench.engine.prefetch_epoch(stream) == first);
  bench.launch(other, 1);
  CHECK(bench.engine.prefetch_epoch(stream) == first);
  bench.launch(stream, 2);
  CHECK(bench.engine.prefetch_epoch(stream) != first);
  bench.finish(2);
  // A thread that waits for prefetched memory is about to use it.
  const std::uint32_t second = bench.engine.prefetch_epoch(other);
  bench.finish(1);
  CHECK(bench.engine.wait(other) == WorkStatus::ok);
  const std::uint32_t third = bench.engine.prefetch_epoch(other);
  CHECK(third != second);
  bench.engine.launch_host(
      other, [](void*) {}, nullptr);
  CHECK(bench.engine.prefetch_epoch(other) != third);
}

TEST_CASE("waiting for a stream ends with the work that was given before the wait", "[streams]") {
  Bench bench;
  const auto stream = bench.stream();
  bench.launch(stream, 1);
  auto waiting = std::async(std::launch::async, [&] { return bench.engine.wait(stream); });
  while (!bench.target->is_waited_for()) std::this_thread::sleep_for(1ms);
  bench.launch(stream, 2);
  bench.finish(1);
  CHECK(waiting.get() == WorkStatus::ok);
  REQUIRE(bench.target->wait_for_running(1));
  CHECK(bench.running() == Sizes{2});
}

TEST_CASE("several threads can wait for different streams at once", "[streams]") {
  Bench bench;
  std::vector<std::shared_ptr<Stream>> streams;
  std::vector<std::future<WorkStatus>> waiting;
  for (std::size_t i = 1; i <= 4; ++i) {
    const auto stream = streams.emplace_back(bench.stream());
    bench.launch(stream, i);
    waiting.push_back(
        std::async(std::launch::async, [&, stream] { return bench.engine.wait(stream); }));
  }
  // The last one first: a thread that takes completions for all must pass this role on when its own
  // work has ended.
  for (std::size_t i = 4; i >= 1; --i) {
    bench.finish(i);
    CHECK(waiting[i - 1].get() == WorkStatus::ok);
  }
}

TEST_CASE("waiting for a context waits for all its streams and for no other context's",
          "[streams]") {
  Bench bench;
  const auto other_context = bench.engine.create_context();
  const auto other = bench.engine.create_stream(other_context, StreamKind::non_blocking);
  const auto first = bench.stream();
  const auto second = bench.stream(StreamKind::blocking);
  bench.launch(other, 9);
  bench.launch(first, 1);
  bench.launch(second, 2);
  auto waiting =
      std::async(std::launch::async, [&] { return bench.engine.wait_all(bench.context); });
  bench.finish(1);
  CHECK(waiting.wait_for(20ms) == std::future_status::timeout);
  bench.finish(2);
  CHECK(waiting.get() == WorkStatus::ok);
  CHECK(bench.running() == Sizes{9});
}

TEST_CASE("the default stream waits for blocking streams, and they wait for it", "[streams]") {
  Bench bench;
  const auto legacy = bench.engine.default_stream(*bench.context);
  const auto first = bench.stream(StreamKind::blocking);
  const auto second = bench.stream(StreamKind::blocking);
  bench.launch(first, 1);
  bench.launch(second, 2);
  bench.launch(legacy, 3);
  bench.launch(first, 4);
  bench.launch(second, 5);
  CHECK(bench.running() == Sizes{1, 2});
  bench.finish(1);
  bench.take_completions(first);
  CHECK(bench.running() == Sizes{2});  // not 3, which waits for 2, and not 4, which waits for 3
  bench.finish(2);
  bench.take_completions(second);
  CHECK(bench.running() == Sizes{3});
  bench.finish(3);
  bench.take_completions(legacy);
  CHECK(bench.running().size() == 2);
  CHECK(bench.id_of(4) != 0);
  CHECK(bench.id_of(5) != 0);
}

TEST_CASE("non-blocking streams and other contexts are not ordered with the default stream",
          "[streams]") {
  Bench bench;
  const auto legacy = bench.engine.default_stream(*bench.context);
  const auto free_running = bench.stream(StreamKind::non_blocking);
  const auto elsewhere =
      bench.engine.create_stream(bench.engine.create_context(), StreamKind::blocking);
  bench.launch(legacy, 1);
  bench.launch(free_running, 2);
  bench.launch(elsewhere, 3);
  CHECK(bench.running() == Sizes{1, 2, 3});
}

TEST_CASE("if the device has no free slot, streams get the next slots in their order of arrival",
          "[streams]") {
  Bench bench(2);
  std::vector<std::shared_ptr<Stream>> streams;
  for (std::size_t i = 0; i < 4; ++i) streams.push_back(bench.stream());
  // Stream i launches i+1 and then i+11 items.
  for (std::size_t i = 0; i < 4; ++i) bench.launch(streams[i], i + 1);
  for (std::size_t i = 0; i < 4; ++i) bench.launch(streams[i], i + 11);
  Sizes order;
  while (order.size() < 8) {
    REQUIRE(bench.target->wait_for_running(std::min<std::size_t>(2, 8 - order.size())));
    order.push_back(bench.running().at(0));
    bench.target->finish_oldest();
    bench.take_completions(streams[0]);
  }
  CHECK(order == Sizes{1, 2, 3, 4, 11, 12, 13, 14});
}

TEST_CASE("streams of higher priority get the next slots first", "[streams]") {
  Bench bench(1);
  const auto with_priority = [&](int priority) {
    return bench.engine.create_stream(bench.context, StreamKind::non_blocking, priority);
  };
  bench.launch(with_priority(0), 1);  // takes the slot
  bench.launch(with_priority(0), 2);
  bench.launch(with_priority(-1), 3);
  bench.launch(with_priority(greatest_priority), 4);
  bench.launch(with_priority(-1), 5);
  Sizes order;
  while (order.size() < 5) {
    REQUIRE(bench.target->wait_for_running(1));  // the engine's own thread posts the next one
    order.push_back(bench.running().at(0));
    bench.target->finish_oldest();
  }
  CHECK(order == Sizes{1, 4, 3, 5, 2});
}

TEST_CASE("a destroyed stream still finishes its work", "[streams]") {
  Bench bench;
  auto stream = bench.stream();
  std::atomic<bool> ran = false;
  bench.launch(stream, 1);
  bench.launch(stream, 2);
  bench.engine.launch_host(stream, set_flag, &ran);
  bench.engine.destroy_stream(stream);
  stream.reset();
  CHECK(bench.running() == Sizes{1});
  bench.finish(1);
  REQUIRE(bench.target->wait_for_running(1));
  bench.finish(2);
  CHECK(bench.engine.wait_all(bench.context) == WorkStatus::ok);
  CHECK(ran);
}

TEST_CASE("destroying a context waits for its work, and then refuses more", "[streams]") {
  Bench bench;
  const auto stream = bench.stream();
  bench.launch(stream, 1);
  auto destroying =
      std::async(std::launch::async, [&] { bench.engine.destroy_context(bench.context); });
  CHECK(destroying.wait_for(20ms) == std::future_status::timeout);
  bench.finish(1);
  destroying.get();
  CHECK(bench.launch(stream, 2) == WorkStatus::context_destroyed);
  CHECK(bench.engine.wait(stream) == WorkStatus::context_destroyed);
  CHECK(bench.target->posted() == 1);
}

TEST_CASE("work given to a context during its destruction is refused or done, never lost",
          "[streams]") {
  Bench bench;
  const auto stream = bench.stream();
  OperationRecord first;
  REQUIRE(bench.engine.enqueue_operation(stream, first.operation()) == WorkStatus::ok);
  auto destroying =
      std::async(std::launch::async, [&] { bench.engine.destroy_context(bench.context); });
  int taken = 0;
  std::atomic<int> started = 0;
  WorkStatus status = WorkStatus::ok;
  const auto limit = std::chrono::steady_clock::now() + 10s;
  while (status == WorkStatus::ok && std::chrono::steady_clock::now() < limit) {
    status = bench.engine.enqueue_operation(stream, [&](const Completion& done) {
      ++started;
      done();
    });
    if (status == WorkStatus::ok) ++taken;
    std::this_thread::sleep_for(1ms);
  }
  CHECK(status == WorkStatus::context_destroyed);
  bool called = false;
  CHECK(bench.engine.run_inline(stream, [&] { called = true; }) == WorkStatus::context_destroyed);
  CHECK_FALSE(called);
  CHECK(destroying.wait_for(20ms) == std::future_status::timeout);
  first.done();
  destroying.get();
  CHECK(started == taken);
}

TEST_CASE("a context also waits for work that its streams got before they were destroyed",
          "[streams]") {
  Bench bench;
  const auto stream = bench.stream();
  bench.engine.destroy_stream(stream);
  OperationRecord late;
  REQUIRE(bench.engine.enqueue_operation(stream, late.operation()) == WorkStatus::ok);
  REQUIRE(late.begun);
  auto destroying =
      std::async(std::launch::async, [&] { bench.engine.destroy_context(bench.context); });
  CHECK(destroying.wait_for(20ms) == std::future_status::timeout);
  late.done();
  destroying.get();
}

TEST_CASE("an illegal address fails the kernel's context with that error, and the others as lost",
          "[streams]") {
  Bench bench;
  const auto innocent = bench.engine.create_context();
  const auto bystander = bench.engine.create_stream(innocent, StreamKind::non_blocking);
  const auto stream = bench.stream();
  bench.launch(bystander, 2);
  bench.launch(stream, 1);
  auto waiting = std::async(std::launch::async, [&] { return bench.engine.wait(stream); });
  auto other_waiting = std::async(std::launch::async, [&] { return bench.engine.wait(bystander); });
  bench.target->die(failure_of(DeviceFailure::Kind::illegal_address, bench.id_of(1)));
  CHECK(waiting.get() == WorkStatus::illegal_address);
  CHECK(other_waiting.get() == WorkStatus::launch_failed);

  SECTION("for good") {
    CHECK(bench.launch(stream, 3) == WorkStatus::illegal_address);
    CHECK(bench.engine.wait_all(bench.context) == WorkStatus::illegal_address);
    CHECK(bench.engine.status(*innocent) == WorkStatus::launch_failed);
    CHECK(bench.engine.status(*bench.engine.create_context()) == WorkStatus::launch_failed);
  }
}

TEST_CASE("any other end of the device process fails every context as lost", "[streams]") {
  const auto kind = GENERATE(DeviceFailure::Kind::signal, DeviceFailure::Kind::exception,
                             DeviceFailure::Kind::exited, DeviceFailure::Kind::lost);
  Bench bench;
  const auto stream = bench.stream();
  bench.launch(stream, 1);
  bench.target->die(failure_of(kind, bench.id_of(1)));
  CHECK(bench.engine.wait(stream) == WorkStatus::launch_failed);
}

TEST_CASE("work that finished before the device process ended counts as finished", "[streams]") {
  Bench bench;
  const auto stream = bench.stream();
  std::atomic<bool> ran = false;
  bench.launch(stream, 1);
  bench.engine.launch_host(stream, set_flag, &ran);
  bench.finish(1);
  CHECK(comes_true(ran));
  bench.target->die(failure_of(DeviceFailure::Kind::lost, 0));
  while (bench.engine.status(*bench.context) == WorkStatus::ok) std::this_thread::yield();
  CHECK(bench.engine.query(stream) == StreamState::idle);
}

TEST_CASE("host functions behind a failed kernel are not run", "[streams]") {
  Bench bench;
  const auto stream = bench.stream();
  const auto other = bench.stream();
  std::atomic<bool> ran = false;
  Gate gate;
  bench.engine.launch_host(other, Gate::pass, &gate);  // keeps the thread busy
  REQUIRE(gate.entered.get_future().wait_for(10s) == std::future_status::ready);
  const auto ready = bench.stream();
  bench.engine.launch_host(ready, set_flag, &ran);  // due, but behind the busy one
  bench.launch(stream, 1);
  bench.engine.launch_host(stream, set_flag, &ran);
  bench.target->die(failure_of(DeviceFailure::Kind::illegal_address, bench.id_of(1)));
  CHECK(bench.engine.wait(stream) == WorkStatus::illegal_address);
  gate.leave.set_value();
  // A function given after a fresh start is behind all of them in the thread's queue.
  bench.engine.detach(bench.context);
  bench.engine.attach(std::make_shared<FakeTarget>());
  std::atomic<bool> later = false;
  bench.engine.launch_host(stream, set_flag, &later);
  CHECK(comes_true(later));
  CHECK_FALSE(ran);
}

TEST_CASE("a fresh device process makes the renewed context usable again, and no other",
          "[streams]") {
  Bench bench;
  const auto other = bench.engine.create_context();
  const auto stream = bench.stream();
  bench.launch(stream, 1);
  bench.target->die(failure_of(DeviceFailure::Kind::illegal_address, bench.id_of(1)));
  REQUIRE(bench.engine.wait(stream) == WorkStatus::illegal_address);
  bench.engine.detach(bench.context);
  const auto fresh = std::make_shared<FakeTarget>();
  bench.engine.attach(fresh);
  CHECK(bench.engine.status(*bench.context) == WorkStatus::ok);
  CHECK(bench.engine.status(*other) == WorkStatus::launch_failed);
  CHECK(bench.launch(stream, 2) == WorkStatus::ok);
  CHECK(fresh->running().size() == 1);
  CHECK(bench.engine.status(*bench.engine.create_context()) == WorkStatus::ok);
}

TEST_CASE("replacing a healthy device process fails only contexts with unfinished work",
          "[streams]") {
  Bench bench;
  const auto idle = bench.engine.create_context();
  const auto busy = bench.engine.create_context();
  const auto busy_stream = bench.engine.create_stream(busy, StreamKind::non_blocking);
  const auto stream = bench.stream();
  bench.launch(stream, 1);
  bench.launch(busy_stream, 2);
  auto waiting = std::async(std::launch::async, [&] { return bench.engine.wait(busy_stream); });
  bench.engine.detach(bench.context);
  CHECK(waiting.get() == WorkStatus::launch_failed);
  CHECK(bench.engine.query(stream) == StreamState::idle);

  SECTION("and launches wait for the new one") {
    const auto fresh = std::make_shared<FakeTarget>();
    auto launching = std::async(std::launch::async, [&] { return bench.launch(stream, 3); });
    CHECK(launching.wait_for(20ms) == std::future_status::timeout);
    bench.engine.attach(fresh);
    CHECK(launching.get() == WorkStatus::ok);
    CHECK(bench.engine.status(*idle) == WorkStatus::ok);
    CHECK(fresh->running().size() == 1);
  }
  SECTION("and when there is no new one all contexts fail") {
    bench.engine.attach(nullptr);
    CHECK(bench.launch(stream, 3) == WorkStatus::launch_failed);
    CHECK(bench.engine.status(*idle) == WorkStatus::launch_failed);
  }
}

namespace {

// The model of the random test: for every kernel, the work that must have finished before it
// starts.
struct Model {
  struct Entry {
    StreamKind kind;
    std::size_t stream;
    bool finished = false;
  };
  std::mutex lock;
  std::vector<Entry> given;  // by number, in the order they were given

  // The number of an earlier entry that must have finished and has not, or none.
  std::optional<std::size_t> offence(std::size_t number) const {
    const Entry& now = given[number];
    for (std::size_t i = 0; i < number; ++i) {
      const Entry& before = given[i];
      if (before.finished) continue;
      const bool ordered =
          before.stream == now.stream ||
          (now.kind == StreamKind::context_default && before.kind == StreamKind::blocking) ||
          (now.kind == StreamKind::blocking && before.kind == StreamKind::context_default);
      if (ordered) return i;
    }
    return std::nullopt;
  }
};

}  // namespace

TEST_CASE("random work on random streams always runs in order", "[streams]") {
  std::mt19937_64 random(wherry::test::seed());
  const auto rounds = wherry::test::scaled(30);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    Model model;
    std::string offences;
    const auto begins = [&](std::size_t number) {
      const std::lock_guard guard(model.lock);
      if (const auto before = model.offence(number)) {
        offences += " " + std::to_string(number) + " was started before the end of " +
                    std::to_string(*before);
      }
    };
    const auto ends = [&](std::size_t number) {
      const std::lock_guard guard(model.lock);
      model.given[number].finished = true;
    };
    struct HostWork {
      std::function<void()> run;
    };
    std::deque<HostWork> host_work;

    Bench bench(1 + random() % 4);
    // The number of items is the number plus one, because a launch of no items runs nothing.
    bench.target->on_post([&](const FakeTarget::Posted& launch) { begins(launch.items - 1); });
    std::vector<std::pair<std::shared_ptr<Stream>, StreamKind>> streams{
        {bench.engine.default_stream(*bench.context), StreamKind::context_default}};
    for (int i = 0; i < 3; ++i) {
      streams.emplace_back(bench.stream(StreamKind::blocking), StreamKind::blocking);
      streams.emplace_back(bench.stream(StreamKind::non_blocking), StreamKind::non_blocking);
    }

    std::atomic<bool> stop = false;
    std::thread device([&, seed = random()] {
      std::mt19937_64 choose(seed);
      while (!stop) {
        const auto running = bench.target->running();
        if (running.empty()) {
          std::this_thread::yield();
          continue;
        }
        const auto& launch = running[choose() % running.size()];
        ends(launch.items - 1);
        bench.target->finish(launch.id);
      }
    });

    constexpr std::size_t total = 300;
    for (std::size_t number = 0; number < total; ++number) {
      const std::size_t which = random() % streams.size();
      {
        const std::lock_guard guard(model.lock);
        model.given.push_back({streams[which].second, which});
      }
      if (random() % 4 == 0) {
        host_work.push_back({[&, number] {
          begins(number);
          ends(number);
        }});
        bench.engine.launch_host(
            streams[which].first, [](void* data) { static_cast<HostWork*>(data)->run(); },
            &host_work.back());
      } else {
        bench.launch(streams[which].first, number + 1);
      }
      if (random() % 32 == 0) bench.engine.wait(streams[random() % streams.size()].first);
    }
    CHECK(bench.engine.wait_all(bench.context) == WorkStatus::ok);
    stop = true;
    device.join();
    INFO("round " << round << ":" << offences);
    REQUIRE(offences.empty());
    const std::lock_guard guard(model.lock);
    for (const auto& entry : model.given) REQUIRE(entry.finished);
  }
}

// ---- the default stream

// An engine whose default stream and blocking stream wait for each other.
struct DefaultBench : Bench {
  const std::shared_ptr<Stream> legacy = engine.default_stream(*context);
  const std::shared_ptr<Stream> blocking = stream(StreamKind::blocking);
};

TEST_CASE("a query of the default stream includes blocking streams, not the others", "[streams]") {
  DefaultBench bench;
  const auto other = bench.stream(StreamKind::non_blocking);
  bench.launch(other, 1);
  CHECK(bench.engine.query(bench.legacy) == StreamState::idle);
  CHECK(bench.engine.wait(bench.legacy) == WorkStatus::ok);
  bench.launch(bench.blocking, 2);
  CHECK(bench.engine.query(bench.legacy) == StreamState::busy);
  bench.finish(2);
  CHECK(bench.engine.query(bench.legacy) == StreamState::idle);
  // The default stream also waits for work of a stream that the program has destroyed.
  bench.launch(bench.blocking, 3);
  bench.engine.destroy_stream(bench.blocking);
  CHECK(bench.engine.query(bench.legacy) == StreamState::busy);
  bench.finish(3);
  CHECK(bench.engine.query(bench.legacy) == StreamState::idle);
}

TEST_CASE("a query of a blocking stream does not include the default stream", "[streams]") {
  DefaultBench bench;
  bench.launch(bench.legacy, 1);
  CHECK(bench.engine.query(bench.blocking) == StreamState::idle);
  CHECK(bench.engine.wait(bench.blocking) == WorkStatus::ok);
  CHECK(bench.running() == Sizes{1});
}

TEST_CASE("a wait for the default stream ends when blocking streams have done their earlier work",
          "[streams]") {
  DefaultBench bench;
  bench.launch(bench.blocking, 1);
  auto waiting = std::async(std::launch::async, [&] { return bench.engine.wait(bench.legacy); });
  while (!bench.target->is_waited_for()) std::this_thread::yield();
  // Given after the call, so it is not waited for.
  bench.launch(bench.blocking, 2);
  bench.finish(1);
  CHECK(waiting.wait_for(10s) == std::future_status::ready);
  CHECK(waiting.get() == WorkStatus::ok);
  CHECK(bench.running() == Sizes{2});
}

TEST_CASE("a wait for the default stream returns the error if a blocking stream lost its work",
          "[streams]") {
  DefaultBench bench;
  bench.launch(bench.blocking, 1);
  auto waiting = std::async(std::launch::async, [&] { return bench.engine.wait(bench.legacy); });
  while (!bench.target->is_waited_for()) std::this_thread::yield();
  SECTION("by a reset") {
    bench.engine.detach(bench.context);
    bench.engine.attach(std::make_shared<FakeTarget>());
    CHECK(waiting.get() == WorkStatus::launch_failed);
    CHECK(bench.engine.status(*bench.context) == WorkStatus::ok);
  }
  SECTION("by the end of the device") {
    bench.target->die(failure_of(DeviceFailure::Kind::illegal_address, bench.id_of(1)));
    CHECK(waiting.get() == WorkStatus::illegal_address);
  }
}

TEST_CASE("a stream is ready if new work would begin at once", "[streams]") {
  DefaultBench bench;
  const auto other = bench.stream(StreamKind::non_blocking);
  bench.launch(bench.legacy, 1);
  CHECK_FALSE(bench.engine.is_ready(bench.legacy));
  CHECK_FALSE(bench.engine.is_ready(bench.blocking));
  CHECK(bench.engine.is_ready(other));
  bench.finish(1);
  CHECK(bench.engine.is_ready(bench.blocking));
  bench.launch(bench.blocking, 2);
  CHECK_FALSE(bench.engine.is_ready(bench.legacy));
  CHECK(bench.engine.is_ready(bench.stream(StreamKind::blocking)));
  bench.finish(2);
  CHECK(bench.engine.is_ready(bench.legacy));
}

}  // namespace wherry::test::device_engine_test
