// Carries between the pools of a machine in memory (fake_machine.h), and fails on demand.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <mutex>

#include "memory/carrier.h"
#include "support/fake_machine.h"

namespace wherry::test {

// What happens to one cargo instead of its arrival.
struct Mishap {
  OpStatus status = OpStatus::incomplete;  // ok: it arrives, and is only not released at the source
  std::uint64_t pages = 0;                 // as many arrive before
};

// What several carriers share.
struct Haulage {
  explicit Haulage(FakeMachine& of) : machine(of) {}

  FakeMachine& machine;
  // Called when a cargo is on its way: between the beginning of a flight and its end.
  std::function<void(const Cargo&)> on_the_way;
  std::mutex lock;
  std::deque<Mishap> mishaps;  // each concerns the next cargo, in order
  int carried = 0;
};

class FakeCarrier final : public Carrier {
 public:
  explicit FakeCarrier(Haulage& haulage) : haulage_(haulage) {}

  unsigned slots() const override { return 2; }
  void begin(unsigned slot, const Cargo& cargo) override { under_way_.push_back({slot, cargo}); }

  Delivery next() override {
    const auto [slot, cargo] = under_way_.front();
    under_way_.pop_front();
    if (haulage_.on_the_way) haulage_.on_the_way(cargo);
    Mishap mishap{OpStatus::ok, cargo.span.count};
    bool arrives = true;
    {
      const std::lock_guard guard(haulage_.lock);
      ++haulage_.carried;
      if (!haulage_.mishaps.empty()) {
        mishap = haulage_.mishaps.front();
        haulage_.mishaps.pop_front();
        arrives = false;
      }
    }
    FakeProcessor& source = haulage_.machine.at(cargo.from.index);
    FakeProcessor& target = haulage_.machine.at(cargo.to.index);
    const PageSpan part{cargo.span.first, mishap.status == OpStatus::ok
                                              ? cargo.span.count
                                              : std::min(mishap.pages, cargo.span.count)};
    const OpResult result = cargo.kind == Cargo::Kind::create ? target.fill_zero(part)
                            : part.empty()                    ? OpResult{}
                                           : target.fill(part, source.alias(part.first));
    if (!result) return {slot, OpStatus::incomplete, false};
    if (mishap.status != OpStatus::ok) return {slot, mishap.status, false};
    const bool releases = arrives && cargo.kind == Cargo::Kind::move;
    return {slot, OpStatus::ok, releases && source.punch(cargo.span) == 0};
  }

 private:
  struct UnderWay {
    unsigned slot;
    Cargo cargo;
  };

  Haulage& haulage_;
  std::deque<UnderWay> under_way_;
};

}  // namespace wherry::test
