// Which entries the sampler removes from a device's page table to detect accesses, and which not.
#include "migration/access_sampler.h"

#include "support/catch.h"
#include "support/fake_machine.h"

namespace wherry::test::access_sampler_test {
namespace {

constexpr Processor device = Processor::device(0);
constexpr std::uint64_t blocks = 8;
constexpr PageRun some{64, 32};

struct Setup {
  FakeMachine machine{2, blocks, blocks* pages_per_block};
  PageEngine engine{machine.memories()};
  AdviceMap advice;
  PinGate pins{advice};
  AccessSampler sampler{engine, machine.blocks(), pins, machine.changers()};

  Setup() {
    for (std::uint64_t number = 0; number < blocks; ++number) {
      Block& block = machine.blocks().at({number});
      const LockedBlock locked({number}, block);
      Reservation reservation;
      REQUIRE(reservation.try_grow(machine.memory(1).capacity, some.count));
      REQUIRE(engine.populate(locked, some, device, reservation));
    }
  }
  unsigned mapped(std::uint64_t number) {
    unsigned sum = 0;
    for (std::uint64_t page = 0; page < pages_per_block; ++page)
      sum += machine.at(1).maps(span_of({number}, {0, 1}).first + page) ? 1 : 0;
    return sum;
  }
  bool sampled(std::uint64_t number) { return engine.resident_blocks(device).is_sampled({number}); }
};

}  // namespace

TEST_CASE("one page of each sampled block has no page-table entry, but is still in the pool") {
  Setup s;
  s.sampler.sample(device, 3);
  unsigned sampled = 0;
  for (std::uint64_t number = 0; number < blocks; ++number) {
    CHECK(s.mapped(number) == some.count - (s.sampled(number) ? 1 : 0));
    sampled += s.sampled(number) ? 1 : 0;
    Block& block = s.machine.blocks().at({number});
    const LockGuard guard(block.lock);
    CHECK(block.at(device).mapped.count() == some.count);  // a superset of the actual entries
    CHECK(block.at(device).resident.count() == some.count);
  }
  CHECK(sampled == 3);
  CHECK(s.machine.at(1).held() == blocks * some.count);
}

TEST_CASE("an access to the page marks the block as used") {
  Setup s;
  s.sampler.sample(device, 1);
  std::uint64_t number = 0;
  while (!s.sampled(number)) ++number;
  Block& block = s.machine.blocks().at({number});
  {
    const LockedBlock locked({number}, block);
    s.engine.note_access(locked, device);
    REQUIRE(s.engine.map(locked, some, device));
  }
  CHECK_FALSE(s.sampled(number));
  CHECK(s.mapped(number) == some.count);
}

TEST_CASE("pages in a transfer or a change of view are not unmapped, and do not count as idle") {
  Setup s;
  for (std::uint64_t number = 0; number < blocks; ++number) {
    Block& block = s.machine.blocks().at({number});
    const LockGuard guard(block.lock);
    if (number % 2 == 0)
      block.transfer_begun(some);
    else
      block.switch_begun(device, some);
  }
  s.sampler.sample(device, 4);
  for (std::uint64_t number = 0; number < blocks; ++number) {
    CHECK(s.mapped(number) == some.count);
    CHECK_FALSE(s.sampled(number));
  }
}

TEST_CASE("pinned pages keep their entries, and do not count as idle") {
  Setup s;
  s.advice.change(span_of({0}, {0, blocks * pages_per_block}), {AdviceChange::Kind::pinned, {}});
  s.sampler.sample(device, blocks);
  for (std::uint64_t number = 0; number < blocks; ++number) {
    CHECK(s.mapped(number) == some.count);
    CHECK_FALSE(s.sampled(number));
  }
}

TEST_CASE("blocks of a device that has ended do not count as idle") {
  Setup s;
  s.machine.at(1).die();
  s.sampler.sample(device, 4);
  for (std::uint64_t number = 0; number < blocks; ++number) CHECK_FALSE(s.sampled(number));
}

}  // namespace wherry::test::access_sampler_test
