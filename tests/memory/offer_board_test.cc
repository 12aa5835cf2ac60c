#include "memory/offer_board.h"

#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cstring>
#include <functional>

#include "support/catch.h"
#include "support/child.h"
#include "support/session.h"

namespace wherry::test::offer_board_test {

using namespace wherry::impl;
using wherry::test::Child;
using wherry::test::expect;
using wherry::test::Outcome;

namespace {

using Verdict = ForeignOffer::Verdict;

Fd make_file() {
  Fd file(::memfd_create("offered", MFD_CLOEXEC));
  REQUIRE(::ftruncate(file.get(), 1 << 16) == 0);
  return file;
}
Offer offer_of(const Fd& file) {
  Offer offer;
  offer.descriptor = file.get();
  offer.file = identify_file(file.get());
  offer.offset = 4096;
  offer.bytes = 100;
  return offer;
}
// Runs `body` in another process.
void look(const std::function<void()>& body) {
  Child child(body);
  const Outcome outcome = child.wait();
  INFO(outcome.describe());
  CHECK(outcome.passed());
}
Verdict find(const OfferHandle& handle, OfferKind kind = OfferKind::memory) {
  ForeignOffer found;
  return ForeignOffer::find(handle, kind, found);
}

}  // namespace

TEST_CASE("another process finds an offer as long as it exists", "[memory]") {
  const Fd file = make_file();
  OfferBoard board;
  const OfferHandle first = *board.post(offer_of(file));
  const OfferHandle second = *board.post(offer_of(file));
  CHECK(first != second);
  CHECK(find(first) == Verdict::own);
  look([&] {
    ForeignOffer found;
    expect(ForeignOffer::find(first, OfferKind::memory, found) == Verdict::found, "not found");
    expect(found.offer().offset == 4096 && found.offer().bytes == 100, "something else");
    Fd opened;
    expect(found.open_file(opened) == Verdict::found && opened, "not opened");
    expect(found.stands(), "gone");
    expect(find(first, OfferKind::event) == Verdict::unknown, "an offer of another kind was found");
    expect(find({}) == Verdict::unknown, "an empty handle was found");
  });
  board.withdraw(first);
  const OfferHandle third = *board.post(offer_of(file));
  CHECK(third.slot == first.slot);
  look([&] {
    expect(find(first) == Verdict::unknown, "the first offer still exists");
    expect(find(second) == Verdict::found, "the second offer does not exist");
    expect(find(third) == Verdict::found, "the new offer was not found");
  });
}

TEST_CASE("a process that has found an offer notices its end", "[memory]") {
  const Fd file = make_file();
  OfferBoard board;
  const OfferHandle handle = *board.post(offer_of(file));
  int steps[2] = {-1, -1};
  REQUIRE(::pipe(steps) == 0);
  Child child([&] {
    ForeignOffer found;
    expect(ForeignOffer::find(handle, OfferKind::memory, found) == Verdict::found, "not found");
    expect(::write(STDOUT_FILENO, "found\n", 6) == 6, "cannot write");
    char step = 0;
    expect(::read(steps[0], &step, 1) == 1, "the test does not continue");
    expect(!found.stands(), "the replaced offer still stands");
  });
  REQUIRE(child.read_line() == "found");
  board.withdraw(handle);
  CHECK(board.post(offer_of(file))->slot == handle.slot);
  REQUIRE(::write(steps[1], "x", 1) == 1);
  const Outcome outcome = child.wait();
  INFO(outcome.describe());
  CHECK(outcome.passed());
  ::close(steps[0]);
  ::close(steps[1]);
}

TEST_CASE("every byte of a handle counts", "[memory]") {
  const Fd file = make_file();
  OfferBoard board;
  const OfferHandle handle = *board.post(offer_of(file));
  (void)board.post(offer_of(file));
  look([&] {
    for (std::size_t place = 0; place < sizeof handle; ++place) {
      for (int bit = 0; bit < 8; ++bit) {
        char bytes[sizeof handle];
        std::memcpy(bytes, &handle, sizeof handle);
        bytes[place] = static_cast<char>(bytes[place] ^ (1 << bit));
        const auto changed = std::bit_cast<OfferHandle>(bytes);
        expect(find(changed) != Verdict::found, "byte " + std::to_string(place));
      }
    }
  });
}

TEST_CASE("a full board accepts no more offers, and has free slots again after one is removed",
          "[memory]") {
  const Fd file = make_file();
  OfferBoard board;
  OfferHandle last;
  for (std::uint32_t i = 0; i < OfferBoard::slots_max; ++i) last = *board.post(offer_of(file));
  CHECK(!board.post(offer_of(file)));
  board.withdraw(last);
  CHECK(board.post(offer_of(file)));
}

}  // namespace wherry::test::offer_board_test
