// Events and callbacks of engines with fake devices.
#include <atomic>
#include <bitset>
#include <chrono>
#include <future>
#include <mutex>
#include <random>
#include <thread>

#include "streams/bench.h"
#include "streams/device_engine.h"
#include "support/catch.h"
#include "support/conditions.h"

namespace wherry::test::event_test {

using namespace wherry::impl;
using namespace std::chrono_literals;

namespace {

std::shared_ptr<Recording> record(DeviceEngine& engine, const std::shared_ptr<Stream>& stream) {
  auto recording = std::make_shared<Recording>();
  REQUIRE(engine.record(stream, recording) == WorkStatus::ok);
  return recording;
}

// An engine with an event behind kernel 1 in its stream.
struct EventBench : Bench {
  EventBench() {
    launch(busy, 1);
    event = record(engine, busy);
  }
  const std::shared_ptr<Stream> busy = stream();
  std::shared_ptr<Recording> event;
};

// A callback that records its arguments.
struct Told {
  std::atomic<bool> called = false;
  std::atomic<int> times = 0;
  std::atomic<WorkStatus> status = WorkStatus::unknown_kernel;

  std::function<void(WorkStatus)> callback() {
    return [this](WorkStatus what) {
      status = what;
      ++times;
      called = true;
    };
  }
};

}  // namespace

TEST_CASE("an event completes when the work before it has finished, and not earlier", "[streams]") {
  EventBench bench;
  bench.launch(bench.busy, 2);
  CHECK_FALSE(bench.engine.query(*bench.event));
  bench.finish(1);
  const auto outcome = bench.engine.query(*bench.event);
  REQUIRE(outcome);
  CHECK(outcome->status == WorkStatus::ok);
  CHECK(bench.running() == Sizes{2});
}

TEST_CASE("an event in an idle stream completes at once", "[streams]") {
  Bench bench;
  const auto before = std::chrono::steady_clock::now();
  const auto event = record(bench.engine, bench.stream());
  REQUIRE(event->outcome());
  CHECK(event->outcome()->time >= before);
  CHECK(event->outcome()->time <= std::chrono::steady_clock::now());
}

TEST_CASE("an event's time is the end of the work before it", "[streams]") {
  EventBench bench;
  const auto still_running = std::chrono::steady_clock::now();
  bench.finish(1);
  // No thread waits: the engine's own thread completes the event.
  while (!bench.event->outcome()) std::this_thread::sleep_for(1ms);
  const auto seen = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(5ms);
  CHECK(bench.engine.wait(bench.busy) == WorkStatus::ok);
  CHECK(bench.event->outcome()->time >= still_running);
  CHECK(bench.event->outcome()->time <= seen);
}

TEST_CASE("a thread can wait for an event, and not for later work", "[streams]") {
  EventBench bench;
  bench.launch(bench.busy, 2);
  auto waiting = std::async(std::launch::async, [&] { return bench.engine.wait(*bench.event); });
  CHECK(waiting.wait_for(20ms) == std::future_status::timeout);
  bench.finish(1);
  CHECK(waiting.get() == WorkStatus::ok);
  CHECK(bench.engine.query(bench.busy) == StreamState::busy);
}

TEST_CASE("a stream waits for an event of another stream, of its device or of another",
          "[streams]") {
  Bench here;
  Bench elsewhere;
  Bench& other = GENERATE(false, true) ? here : elsewhere;
  const auto first = other.stream();
  const auto second = here.stream();
  other.launch(first, 1);
  const auto event = record(other.engine, first);
  REQUIRE(here.engine.wait_for(second, event) == WorkStatus::ok);
  here.launch(second, 2);
  CHECK(here.engine.query(second) == StreamState::busy);
  CHECK(here.id_of(2) == 0);
  other.finish(1);
  // Kernel 2 starts although no thread queries the event or a stream.
  const auto limit = std::chrono::steady_clock::now() + 10s;
  while (here.id_of(2) == 0 && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(1ms);
  }
  CHECK(here.id_of(2) != 0);
}

TEST_CASE("a thread that waits for a stream is woken by another device's event", "[streams]") {
  Bench here;
  Bench elsewhere;
  const auto first = elsewhere.stream();
  const auto second = here.stream();
  elsewhere.launch(first, 1);
  here.engine.wait_for(second, record(elsewhere.engine, first));
  auto waiting = std::async(std::launch::async, [&] { return here.engine.wait(second); });
  CHECK(waiting.wait_for(20ms) == std::future_status::timeout);
  elsewhere.finish(1);
  CHECK(waiting.get() == WorkStatus::ok);
}

TEST_CASE("a completed event is not waited for", "[streams]") {
  Bench here;
  Bench elsewhere;
  const auto event = record(elsewhere.engine, elsewhere.stream());
  const auto stream = here.stream();
  here.engine.wait_for(stream, event);
  here.launch(stream, 1);
  CHECK(here.running() == Sizes{1});
}

TEST_CASE("an event in the default stream includes the blocking streams' work", "[streams]") {
  Bench bench;
  const auto blocking = bench.stream(StreamKind::blocking);
  bench.launch(blocking, 1);
  const auto event = record(bench.engine, bench.engine.default_stream(*bench.context));
  CHECK_FALSE(bench.engine.query(*event));
  bench.finish(1);
  CHECK(bench.engine.query(*event));
}

TEST_CASE("two devices can wait for each other in turn, ten thousand times", "[streams]") {
  Bench one;
  Bench two;
  const auto first = one.stream();
  const auto second = two.stream();
  one.launch(first, 1);
  for (int i = 0; i < 10'000; ++i) {
    two.engine.wait_for(second, record(one.engine, first));
    one.engine.wait_for(first, record(two.engine, second));
  }
  one.finish(1);
  CHECK(two.engine.wait(second) == WorkStatus::ok);
  CHECK(one.engine.wait(first) == WorkStatus::ok);
}

TEST_CASE("a destroyed stream still waits, and records", "[streams]") {
  Bench bench;
  auto first = bench.stream();
  auto second = bench.stream();
  bench.launch(first, 1);
  bench.engine.wait_for(second, record(bench.engine, first));
  bench.launch(second, 2);
  const auto last = record(bench.engine, second);
  bench.engine.destroy_stream(first);
  bench.engine.destroy_stream(second);
  first.reset();
  second.reset();
  bench.finish(1);
  REQUIRE(bench.target->wait_for_running(1));
  CHECK(bench.running() == Sizes{2});
  bench.finish(2);
  CHECK(bench.engine.wait(*last) == WorkStatus::ok);
}

TEST_CASE("an event of a device that died completes with the error", "[streams]") {
  EventBench bench;
  auto waiting = std::async(std::launch::async, [&] { return bench.engine.wait(*bench.event); });
  bench.target->die(failure_of(DeviceFailure::Kind::illegal_address, bench.id_of(1)));
  CHECK(waiting.get() == WorkStatus::illegal_address);
  REQUIRE(bench.engine.query(*bench.event));
  CHECK(bench.engine.query(*bench.event)->status == WorkStatus::illegal_address);
}

TEST_CASE("work that waits for an event of a failing context fails", "[streams]") {
  Bench here;
  auto elsewhere = std::make_unique<Bench>();
  const auto first = elsewhere->stream();
  const auto second = here.stream();
  const auto third = here.stream();
  const auto innocent = here.engine.create_context();
  const auto untouched = here.engine.create_stream(innocent, StreamKind::non_blocking);
  elsewhere->launch(first, 1);
  here.launch(third, 3);
  here.engine.wait_for(second, record(elsewhere->engine, first));
  here.launch(second, 2);
  const auto behind = record(here.engine, second);

  SECTION("when its device dies") {
    elsewhere->target->die(failure_of(DeviceFailure::Kind::illegal_address, elsewhere->id_of(1)));
    CHECK(here.engine.wait(*behind) == WorkStatus::illegal_address);
  }
  SECTION("when its device is reset") {
    elsewhere->engine.detach(elsewhere->context);
    CHECK(here.engine.wait(*behind) == WorkStatus::launch_failed);
  }
  SECTION("when it had failed before") {
    const auto late = record(elsewhere->engine, first);
    elsewhere->target->die(failure_of(DeviceFailure::Kind::lost, 0));
    CHECK(elsewhere->engine.wait(*late) == WorkStatus::launch_failed);
    CHECK(here.engine.wait(*behind) == WorkStatus::launch_failed);
    CHECK(here.engine.wait_for(untouched, late) == WorkStatus::ok);
    CHECK(here.engine.wait(untouched) == WorkStatus::launch_failed);
    return;
  }
  SECTION("when its engine is destroyed") {
    elsewhere.reset();
    CHECK(here.engine.wait(*behind) == WorkStatus::launch_failed);
  }
  // Its kernel that has begun goes on, because it cannot be stopped. No other work begins.
  CHECK(here.engine.status(*here.context) != WorkStatus::ok);
  CHECK(here.running() == Sizes{3});
  CHECK(here.engine.query(third) == StreamState::busy);
  here.finish(3);
  CHECK(here.engine.wait_all(here.context) == here.engine.status(*here.context));
  CHECK(here.target->posted() == 1);
  // The device and its other contexts are not affected.
  CHECK(here.engine.status(*innocent) == WorkStatus::ok);
  CHECK(here.engine.launch(untouched, some_kernel, {}, 4) == WorkStatus::ok);
  CHECK(here.running() == Sizes{4});
}

TEST_CASE("failure propagates along a chain of devices, and a reset ends it", "[streams]") {
  Bench benches[3];
  std::shared_ptr<Stream> streams[3];
  for (int i = 0; i < 3; ++i) streams[i] = benches[i].stream();
  benches[0].launch(streams[0], 1);
  for (int i = 1; i < 3; ++i) {
    benches[i].engine.wait_for(streams[i], record(benches[i - 1].engine, streams[i - 1]));
  }
  benches[0].target->die(failure_of(DeviceFailure::Kind::lost, 0));
  for (int i = 0; i < 3; ++i) {
    CHECK(benches[i].engine.wait(streams[i]) == WorkStatus::launch_failed);
  }
  benches[2].engine.detach(benches[2].context);
  benches[2].engine.attach(benches[2].target);
  CHECK(benches[2].launch(streams[2], 2) == WorkStatus::ok);
}

// ---- callbacks

TEST_CASE("a callback is called in its turn, and later work waits", "[streams]") {
  Bench bench;
  const auto stream = bench.stream();
  Told told;
  bench.launch(stream, 1);
  REQUIRE(bench.engine.add_callback(stream, told.callback()) == WorkStatus::ok);
  bench.launch(stream, 2);
  CHECK_FALSE(told.called);
  bench.finish(1);
  CHECK(comes_true(told.called));
  CHECK(told.status == WorkStatus::ok);
  REQUIRE(bench.target->wait_for_running(1));
  CHECK(bench.running() == Sizes{2});
}

TEST_CASE("callbacks behind a failed kernel get its error, once", "[streams]") {
  Bench bench;
  const auto stream = bench.stream();
  const auto other = bench.stream();
  Gate gate;
  bench.engine.launch_host(other, Gate::pass, &gate);  // keeps the thread busy
  REQUIRE(gate.entered.get_future().wait_for(10s) == std::future_status::ready);
  Told due;
  bench.engine.add_callback(bench.stream(), due.callback());
  Told queued;
  std::atomic<bool> ran = false;
  bench.launch(stream, 1);
  bench.engine.launch_host(stream, set_flag, &ran);
  bench.engine.add_callback(stream, queued.callback());
  bench.target->die(failure_of(DeviceFailure::Kind::illegal_address, bench.id_of(1)));
  CHECK(bench.engine.wait(stream) == WorkStatus::illegal_address);
  gate.leave.set_value();
  CHECK(comes_true(due.called));
  CHECK(comes_true(queued.called));
  CHECK(due.status == WorkStatus::illegal_address);
  CHECK(queued.status == WorkStatus::illegal_address);
  // A callback given after a fresh start is called after all of them.
  bench.engine.detach(bench.context);
  bench.engine.attach(std::make_shared<FakeTarget>());
  Told later;
  bench.engine.add_callback(stream, later.callback());
  CHECK(comes_true(later.called));
  CHECK(later.status == WorkStatus::ok);
  CHECK(due.times == 1);
  CHECK(queued.times == 1);
  CHECK_FALSE(ran);
}

TEST_CASE("callbacks whose work a reset discarded get the error that it is lost", "[streams]") {
  Bench bench;
  const auto stream = bench.stream();
  Told told;
  bench.launch(stream, 1);
  bench.engine.add_callback(stream, told.callback());
  bench.engine.detach(bench.context);
  CHECK(comes_true(told.called));
  CHECK(told.status == WorkStatus::launch_failed);
}

// ---- random programs

namespace {

constexpr std::size_t program_length = 40;

// A program of streams and events on two devices, and a model: for each piece of work, the work
// before it. The devices are simulated, so it is always known which work has to run.
class Program {
 public:
  explicit Program(std::uint64_t seed) : random_(seed) {
    for (int device = 0; device < 2; ++device) {
      benches_[device].target->on_post([this](const FakeTarget::Posted& launch) {
        begins(launch.items - 1);  // a launch of no items would run nothing
      });
      for (int context = 0; context < 2; ++context) {
        DeviceEngine& engine = benches_[device].engine;
        const auto work = engine.create_context();
        add_stream(device, work, engine.default_stream(*work), StreamKind::context_default);
        for (const StreamKind kind :
             {StreamKind::blocking, StreamKind::blocking, StreamKind::non_blocking}) {
          add_stream(device, work, engine.create_stream(work, kind), kind);
        }
      }
    }
  }

  // Gives and finishes work in random order until all has finished. Returns a description of the
  // error, or an empty string.
  std::string run() {
    while (given_ < program_length || unfinished() > 0) {
      const bool give = given_ < program_length && (unfinished() == 0 || random_() % 3 != 0);
      give ? give_one() : finish_one();
      if (!comes_to_rest()) fail("work that has to run does not");
      if (!problem_.empty()) return problem_;
    }
    for (const auto& [recording, after] : recordings_) {
      if (!recording->outcome()) return "an event is not complete at the end";
    }
    return {};
  }

 private:
  using Set = std::bitset<program_length>;

  struct Line {
    int device;
    std::shared_ptr<WorkContext> context;
    std::shared_ptr<Stream> stream;
    StreamKind kind;
    Set before = {};  // the work before the next piece, by this stream's own order
  };

  void add_stream(int device, const std::shared_ptr<WorkContext>& context,
                  const std::shared_ptr<Stream>& stream, StreamKind kind) {
    lines_.push_back({device, context, stream, kind});
  }

  // The work that must finish before work that is given to this stream now.
  Set before(const Line& line) const {
    Set all = line.before;
    for (const Line& other : lines_) {
      const bool ordered =
          other.context == line.context &&
          ((line.kind == StreamKind::context_default && other.kind == StreamKind::blocking) ||
           (line.kind == StreamKind::blocking && other.kind == StreamKind::context_default));
      if (ordered) all |= other.before;
    }
    return all;
  }

  void give_one() {
    Line& line = lines_[random_() % lines_.size()];
    DeviceEngine& engine = benches_[line.device].engine;
    const Set after = before(line);
    switch (random_() % 4) {
      case 0:
        if (!recordings_.empty()) {
          const auto& [recording, its] = recordings_[random_() % recordings_.size()];
          engine.wait_for(line.stream, recording);
          line.before = after | its;
        }
        return;
      case 1:
        recordings_.emplace_back(record(engine, line.stream), after);
        line.before = after;
        return;
      case 2: {
        const std::size_t number = note(after, line);
        engine.enqueue_operation(line.stream, [this, number](Completion done) {
          done_[number] = std::move(done);
          begins(number);
        });
        return;
      }
      default:
        engine.launch(line.stream, some_kernel, {}, note(after, line) + 1);
    }
  }

  // Assigns a number to a piece of work whose start can be observed.
  std::size_t note(const Set& after, Line& line) {
    const std::lock_guard guard(lock_);
    const std::size_t number = given_++;
    after_[number] = after;
    line.before = after;
    line.before.set(number);
    return number;
  }

  void begins(std::size_t number) {
    const std::lock_guard guard(lock_);
    if ((after_[number] & ~finished_).any()) fail(std::to_string(number) + " began too early");
    begun_.set(number);
  }

  void finish_one() {
    Set running;
    {
      const std::lock_guard guard(lock_);
      running = begun_ & ~finished_;
    }
    std::size_t skip = random_() % running.count();
    std::size_t number = 0;
    while (!running[number] || skip-- > 0) ++number;
    {
      const std::lock_guard guard(lock_);
      finished_.set(number);
    }
    if (done_[number]) return done_[number]();
    for (Bench& bench : benches_) {
      if (const std::uint64_t id = bench.id_of(number + 1); id != 0)
        return bench.target->finish(id);
    }
  }

  // Waits until all work without unfinished predecessors runs, and every such event has completed.
  // Returns false if that takes too long.
  bool comes_to_rest() {
    const auto limit = std::chrono::steady_clock::now() + 30s;
    while (!is_at_rest()) {
      if (std::chrono::steady_clock::now() > limit) return false;
      for (const Line& line : lines_) benches_[line.device].engine.query(line.stream);
    }
    return true;
  }

  bool is_at_rest() {
    const std::lock_guard guard(lock_);
    for (std::size_t number = 0; number < given_; ++number) {
      if (!begun_[number] && (after_[number] & ~finished_).none()) return false;
    }
    for (const auto& [recording, after] : recordings_) {
      const bool has_come = (after & ~finished_).none();
      if (recording->outcome() && !has_come) fail("an event completed too early");
      if (has_come && !recording->outcome()) return false;
    }
    return true;
  }

  std::size_t unfinished() const {
    const std::lock_guard guard(lock_);
    return given_ - finished_.count();
  }

  void fail(const std::string& what) { problem_ += what + "; "; }

  std::mt19937_64 random_;
  std::vector<std::pair<std::shared_ptr<Recording>, Set>> recordings_;  // with the work before each
  Completion done_[program_length];

  mutable std::recursive_mutex lock_;
  std::size_t given_ = 0;
  Set after_[program_length];
  Set begun_;
  Set finished_;
  std::string problem_;

  std::vector<Line> lines_;
  Bench benches_[2];
};

}  // namespace

TEST_CASE("a thousand random programs of streams and events run in the order of a simple model",
          "[streams]") {
  std::mt19937_64 seeds(wherry::test::seed());
  const auto programs = wherry::test::scaled(1000);
  for (std::uint64_t number = 0; number < programs; ++number) {
    const std::uint64_t seed = seeds();
    INFO("program " << number << ", seed " << seed);
    REQUIRE(Program(seed).run() == "");
  }
}

}  // namespace wherry::test::event_test
