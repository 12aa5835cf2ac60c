#include "streams/shared_event.h"

#include <sys/mman.h>
#include <unistd.h>

#include "support/catch.h"
#include "support/child.h"
#include "support/descriptors.h"
#include "support/session.h"
#include "support/waiting.h"

namespace wherry::test::shared_event_test {

using namespace wherry::impl;
using wherry::test::Child;
using wherry::test::comes_true;
using wherry::test::expect;
using wherry::test::reopen;

namespace {

// With an open file description of its own, as in a process that opens the file through /proc.
std::shared_ptr<SharedEvent> open_again(const SharedEvent& event) {
  return SharedEvent::of(Fd(reopen(event.fd())));
}

}  // namespace

TEST_CASE("each recording of a shared event ends independently", "[streams]") {
  const auto event = std::make_shared<SharedEvent>();
  const auto other = open_again(*event);
  REQUIRE(other);
  CHECK(event->last() == 0);
  const auto first = event->begin();
  const std::uint64_t of_first = other->last();
  const auto second = other->begin();
  const std::uint64_t of_second = event->last();
  CHECK(of_first != of_second);
  second->finish(WorkStatus::ok);
  CHECK(event->query(of_second) == WorkStatus::ok);
  CHECK(!event->query(of_first));
  first->finish(WorkStatus::launch_failed);
  CHECK(other->query(of_first) == WorkStatus::launch_failed);
  CHECK(other->wait(of_second) == WorkStatus::ok);
}

TEST_CASE("a recording that is dropped has failed", "[streams]") {
  const auto event = std::make_shared<SharedEvent>();
  (void)event->begin();
  CHECK(event->query(event->last()) == WorkStatus::launch_failed);
}

TEST_CASE("a failed recording stays failed, whatever is recorded later", "[streams]") {
  const auto event = std::make_shared<SharedEvent>();
  event->begin()->finish(WorkStatus::ok);
  const std::uint64_t good = event->last();
  (void)event->begin();
  const std::uint64_t bad = event->last();
  for (std::uint64_t i = 0; i < SharedEvent::moments_max; ++i)
    event->begin()->finish(WorkStatus::ok);
  CHECK(event->query(good) == WorkStatus::ok);
  CHECK(event->query(bad) == WorkStatus::launch_failed);
  CHECK(event->wait(bad) == WorkStatus::launch_failed);
}

TEST_CASE("a program that executes another one no longer counts as working at a recording",
          "[streams]") {
  const auto event = std::make_shared<SharedEvent>();
  Child child([&] {
    const auto its = open_again(*event);
    const auto moment = its->begin();
    expect(::write(STDOUT_FILENO, "begun\n", 6) == 6, "cannot write");
    while (its->last() == 1) ::usleep(1000);
    ::execlp("sleep", "sleep", "1000", nullptr);
    ::pause();  // the wait below does not end before
  });
  REQUIRE(child.read_line() == "begun");
  const std::uint64_t moment = event->last();
  CHECK(!event->query(moment));
  const auto next = event->begin();  // the recording that it waits for
  CHECK(event->wait(moment) == WorkStatus::launch_failed);
}

TEST_CASE("the number of recordings in progress is limited, until the oldest one ends",
          "[streams]") {
  const auto event = std::make_shared<SharedEvent>();
  std::vector<std::shared_ptr<SharedEvent::Pending>> moments;
  for (std::uint64_t i = 0; i < SharedEvent::moments_max; ++i) moments.push_back(event->begin());
  CHECK(event->begin() == nullptr);
  const std::uint64_t last = event->last();
  moments[5]->finish(WorkStatus::ok);
  CHECK(event->begin() == nullptr);
  CHECK(event->last() == last);
  moments[0]->finish(WorkStatus::ok);
  moments.push_back(event->begin());
  REQUIRE(moments.back());
  CHECK(event->query(last + 1 - SharedEvent::moments_max) == WorkStatus::ok);
  CHECK(!event->query(last));
  for (const auto& moment : moments) moment->finish(WorkStatus::ok);
}

TEST_CASE("recordings end when they complete, or when no process is left to complete them",
          "[streams]") {
  const auto event = std::make_shared<SharedEvent>();
  const auto own = event->begin();
  const std::uint64_t of_own = event->last();
  const auto recording = std::make_shared<Recording>();
  const auto lost = std::make_shared<Recording>();
  {
    Child child([&] {
      // A forked process does not inherit the mapping of the event (MADV_DONTFORK).
      const auto its = open_again(*event);
      const auto moment = its->begin();
      expect(::write(STDOUT_FILENO, "begun\n", 6) == 6, "cannot write");
      ::pause();
    });
    REQUIRE(child.read_line() == "begun");
    event->tell(of_own, recording);
    event->tell(event->last(), lost);
    CHECK(!event->query(event->last()));
    CHECK(!recording->outcome());
    own->finish(WorkStatus::ok);
    CHECK(comes_true([&] { return recording->outcome().has_value(); }));
    CHECK(recording->outcome()->status == WorkStatus::ok);
    CHECK(!lost->outcome());
  }
  CHECK(event->wait(event->last()) == WorkStatus::launch_failed);
  CHECK(comes_true([&] { return lost->outcome().has_value(); }));
  CHECK(lost->outcome()->status == WorkStatus::launch_failed);
}

TEST_CASE("a file that is no shared event is refused", "[streams]") {
  const Fd file(::memfd_create("event", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  CHECK(SharedEvent::of(duplicate_fd(file.get())) == nullptr);
  REQUIRE(::ftruncate(file.get(), static_cast<off_t>(SharedEvent::bytes())) == 0);
  CHECK(SharedEvent::of(duplicate_fd(file.get())) == nullptr);
}

}  // namespace wherry::test::shared_event_test
