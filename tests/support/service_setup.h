// The parts of a runtime on a simulated machine of three processors: as far as the evictor, and as
// far as the fault service.
#pragma once

#include <memory>
#include <thread>

#include "base/clock.h"
#include "faults/fault_service.h"
#include "migration/view_switcher.h"
#include "support/catch.h"
#include "support/fake_backend.h"
#include "support/processors.h"

namespace wherry::test {

struct EvictorSetup {
  // `knows_pins`: the engine asks the advice which pages are pinned.
  EvictorSetup(std::uint64_t blocks, std::uint64_t capacity_pages, bool knows_pins = false)
      : machine(3, blocks, capacity_pages),
        engine(machine.memories(), nullptr, nullptr, now_ns, nullptr,
               knows_pins ? &advice : nullptr) {}

  FakeMachine machine;
  BackendState backend_state{machine};
  PageEngine engine;
  ViewSwitcher switcher{engine, machine.blocks(), machine.changers(), 65530};
  AdviceMap advice;
  AdviceEffects effects{engine, switcher, machine.blocks(), advice};
  Evictor evictor{engine, machine.blocks(), effects,
                  [this] { return std::make_unique<FakeBackend>(backend_state); }, 32};
};

// One allocation is the whole arena.
template <typename FaultPolicy>
struct ServiceSetup : EvictorSetup {
  static constexpr std::uintptr_t base = 0x7000'0000'0000;

  ServiceSetup(std::uint64_t blocks, std::uint64_t capacity_pages, bool knows_pins,
               unsigned region_pages)
      : EvictorSetup(blocks, capacity_pages, knows_pins),
        layout{base, blocks * block_size, 0},
        rules(region_pages) {}

  const ArenaLayout layout;
  const AdviceRules rules;
  AddressSpace address_space{layout.bytes()};
  Audiences audiences;
  FaultPolicy policy;
  FaultService service{layout,        engine,    evictor, effects, machine.blocks(),
                       address_space, audiences, rules,   policy};
  Allocation whole = address_space.allocate(layout.bytes(), 0).value();

  // Like a handler: calls resolve() again when it is due, until the fault is resolved.
  void resolve(Fault& fault) {
    while (const auto due = service.resolve(fault))
      while (now_ns() < *due) std::this_thread::yield();
  }
  void answer(Processor p, const FaultMessage& message) {
    Fault fault = service.take(p, message);
    resolve(fault);
  }
  void touch(Processor p, PageIndex page, bool write = true) {
    answer(p, {base + offset_of(page), 1, write, false, false});
  }
  // Checks that no transfer is in progress, and that the page state agrees with the machine.
  void check_page_state() {
    machine.blocks().for_each_used([&](BlockIndex index, Block& block) {
      const LockGuard guard(block.lock);
      block.check_invariants();
      CHECK(block.in_flight().none());
      for (int p = 0; p < 3; ++p)
        for (unsigned page = 0; page < pages_per_block; ++page)
          if (machine.at(p).holds(block_span(index).first + page) !=
              block.at(Processor{p}).resident.test(page))
            FAIL_CHECK("page " << page << " of block " << index.value << " at processor " << p);
    });
  }
};

}  // namespace wherry::test
