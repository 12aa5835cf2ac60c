// Rings that threads and signal handlers write concurrently: every event is read as written, in
// each writer's order, and events that do not fit are counted.
#include "trace/event_rings.h"

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <thread>
#include <vector>

#include "support/catch.h"

namespace wherry::test::event_rings_test {

using namespace wherry::impl;

namespace {

TraceEvent event(std::uint64_t number, EventKind kind = EventKind::migration) {
  return {.time_ns = number, .address = ~number, .kind = kind};
}
bool is_torn(const TraceEvent& event) {
  return event.address != ~event.time_ns;
}

std::uint64_t dropped(const EventRings& rings) {
  std::uint64_t sum = 0;
  for (unsigned kind = 0; kind < event_kinds; ++kind)
    sum += rings.dropped(static_cast<EventKind>(kind));
  return sum;
}

// Checks the events of several writers as they are read. Writers number their events in steps of
// the number of writers.
class Ledger {
 public:
  explicit Ledger(std::size_t writers) : last_(writers) {}

  void drain(EventRings& rings) {
    std::vector<TraceEvent> taken(64);
    while (const std::size_t count = rings.take(taken)) {
      for (std::size_t i = 0; i < count; ++i) look_at(taken[i]);
      seen_ += count;
    }
  }

  std::uint64_t seen() const { return seen_; }
  bool torn() const { return torn_; }
  bool in_order() const { return in_order_; }

 private:
  void look_at(const TraceEvent& event) {
    torn_ = torn_ || is_torn(event);
    std::uint64_t& last = last_[event.time_ns % last_.size()];
    // Numbers start above those of the writers.
    in_order_ = in_order_ && event.time_ns > last;
    last = event.time_ns;
  }

  std::vector<std::uint64_t> last_;
  std::uint64_t seen_ = 0;
  bool torn_ = false;
  bool in_order_ = true;
};

}  // namespace

TEST_CASE("events are read once, in the order in which they were written") {
  EventRings rings(64);
  std::vector<TraceEvent> taken(8);
  CHECK(rings.take(taken) == 0);
  for (std::uint64_t i = 0; i < 10; ++i) CHECK(rings.put(event(i)));
  CHECK(rings.take(taken) == 8);
  CHECK(taken[0] == event(0));
  CHECK(taken[7] == event(7));
  CHECK(rings.take(taken) == 2);
  CHECK(taken[1] == event(9));
  CHECK(rings.take(taken) == 0);
  CHECK(dropped(rings) == 0);
}

TEST_CASE("events that do not fit are dropped and counted by kind, and freed entries are reused") {
  constexpr std::size_t capacity = 16;
  EventRings rings(capacity);
  std::vector<TraceEvent> taken(2 * capacity);
  for (std::uint64_t lap = 1; lap <= 5; ++lap) {
    for (std::uint64_t i = 0; i < capacity; ++i) CHECK(rings.put(event(i, EventKind::fault)));
    for (int i = 0; i < 3; ++i) CHECK_FALSE(rings.put(event(99, EventKind::fault)));
    CHECK_FALSE(rings.put(event(99, EventKind::free)));
    CHECK(rings.dropped(EventKind::fault) == 3 * lap);
    CHECK(rings.dropped(EventKind::free) == lap);
    CHECK(rings.dropped(EventKind::migration) == 0);
    CHECK(rings.take(taken) == capacity);
    CHECK(taken[capacity - 1] == event(capacity - 1, EventKind::fault));
  }
}

TEST_CASE("with several writers and a reader no event is torn, out of order or lost uncounted") {
  constexpr std::uint64_t writers = 12, each = 20'000;  // more threads than rings
  EventRings rings(256);
  std::vector<std::thread> threads;
  for (std::uint64_t writer = 0; writer < writers; ++writer)
    threads.emplace_back([&, writer] {
      for (std::uint64_t i = 1; i <= each; ++i) rings.put(event(i * writers + writer));
    });
  Ledger ledger(writers);
  for (int round = 0; round < 2000; ++round) ledger.drain(rings);
  for (std::thread& thread : threads) thread.join();
  ledger.drain(rings);
  CHECK_FALSE(ledger.torn());
  CHECK(ledger.in_order());
  CHECK(ledger.seen() + dropped(rings) == writers * each);
}

namespace {

EventRings* handlers_rings = nullptr;
std::atomic<std::uint64_t> handled{0};

void write_from_handler(int) {
  const std::uint64_t number = handled.fetch_add(1) + 1;
  handlers_rings->put(event(2 * number + 1));
}

}  // namespace

TEST_CASE(
    "a signal handler writes during its thread's write: both events are there, each in its order") {
  constexpr std::uint64_t signals = 20'000;
  EventRings rings(1024);
  handlers_rings = &rings;
  struct sigaction action {};
  action.sa_handler = write_from_handler;
  REQUIRE(::sigaction(SIGUSR1, &action, nullptr) == 0);
  std::atomic<bool> stopping{false};
  std::uint64_t written = 0;
  std::thread writer([&] {
    while (!stopping) rings.put(event(2 * ++written));
  });
  Ledger ledger(2);
  for (std::uint64_t i = 0; i < signals; ++i) {
    ::pthread_kill(writer.native_handle(), SIGUSR1);
    ledger.drain(rings);
  }
  stopping = true;
  writer.join();
  ledger.drain(rings);
  CHECK_FALSE(ledger.torn());
  CHECK(ledger.in_order());
  CHECK(handled > 0);
  CHECK(ledger.seen() + dropped(rings) == written + handled);
}

}  // namespace wherry::test::event_rings_test
