#include "machine/own_policy.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory_resource>
#include <vector>

#include "base/log.h"
#include "os/memory/mapped_memory.h"

namespace wherry::impl {
namespace {

// The longest time for which such a policy may have a fault wait; then it is asked again.
constexpr std::uint64_t wait_max_ns = 1'000'000'000;

struct OwnHistory final : BlockHistory {
  struct TemporaryPin {
    unsigned page = 0;
    std::uint64_t until_ns = 0;
  };

  std::unique_ptr<wherry::block_history> theirs;
  std::pmr::vector<TemporaryPin> pins{&mapped_memory()};

  // Returns false if the page is pinned already.
  bool begin_pin(PageRun run, unsigned page, std::uint64_t until_ns) {
    const auto is_pinned = [&](unsigned i) {
      return std::ranges::find(pins, i, &TemporaryPin::page) != pins.end();
    };
    if (is_pinned(page)) return false;
    for (unsigned i = run.first; i < run.end(); ++i)
      if (!is_pinned(i)) pins.push_back({i, until_ns});
    return true;
  }
  void leave(PageRun run) {
    std::erase_if(pins, [&](const TemporaryPin& pin) {
      return pin.page >= run.first && pin.page < run.end();
    });
  }
};

OwnHistory& own(std::unique_ptr<BlockHistory>& history) {
  if (!history) history = std::make_unique<OwnHistory>();
  return static_cast<OwnHistory&>(*history);
}

void complain_once(const char* what) {
  static std::atomic<bool> said = false;
  if (!said.exchange(true)) log_line("the policy {}: that is taken for no opinion", what);
}

int number_of(Processor p) {
  return p.ordinal();
}

wherry::page_set to_theirs(const PageMask& pages) {
  wherry::page_set theirs;
  std::ranges::copy(pages.words(), theirs.words);
  return theirs;
}

wherry::page_fault to_theirs(const FaultFacts& facts) {
  wherry::page_fault fault;
  fault.faulting_processor = number_of(facts.faulting_processor);
  fault.block = facts.block.value;
  fault.page = facts.page;
  fault.write = facts.write;
  fault.now_ns = facts.now_ns;
  fault.residents = facts.residents;
  if (facts.preferred) fault.preferred = number_of(*facts.preferred);
  fault.accessed_by = facts.accessed_by;
  fault.stretch = {facts.stretch.first, facts.stretch.count};
  fault.held = to_theirs(facts.held);
  fault.free_pages = facts.free_pages;
  fault.mapped = to_theirs(facts.mapped);
  fault.fault_ns = facts.fault_ns;
  fault.page_ns = facts.page_ns;
  return fault;
}

wherry::page_arrival::cause to_theirs(MoveCause cause) {
  using Cause = wherry::page_arrival::cause;
  switch (cause) {
    case MoveCause::fault:
    case MoveCause::sample:
      return Cause::fault;
    case MoveCause::thrash_pin:
      return Cause::stay;
    case MoveCause::eviction:
      return Cause::eviction;
    default:
      return Cause::prefetch;  // what the program asked for
  }
}

}  // namespace

Opinion OwnPolicy::on_fault(const FaultFacts& facts, std::unique_ptr<BlockHistory>& history) const {
  try {
    return checked(theirs_->on_fault(to_theirs(facts), own(history).theirs), facts, history);
  } catch (const std::exception& failure) {
    complain_once(failure.what());
  } catch (...) {
    complain_once("throws what is no exception");
  }
  return {};
}

Opinion OwnPolicy::checked(const wherry::opinion& opinion, const FaultFacts& facts,
                           std::unique_ptr<BlockHistory>& history) const {
  Opinion result;
  if (opinion.destination) {
    if (*opinion.destination < -1 || *opinion.destination + 1 >= facts.processors) {
      complain_once("wants pages at a processor that there is not");
      return {};
    }
    result.destination = Processor{*opinion.destination + 1};
  }
  if (opinion.region) {
    const auto [first, count] = *opinion.region;
    if (first < facts.stretch.first || count > facts.stretch.end() - first || facts.page < first ||
        facts.page - first >= count) {
      complain_once("wants a region that has not the page, or more than the stretch");
      return {};
    }
    result.region = PageRun{first, count};
  }
  if (opinion.wait_until_ns > facts.now_ns)
    result.wait_until_ns = std::min(opinion.wait_until_ns, facts.now_ns + wait_max_ns);
  if (opinion.stays_until_ns > facts.now_ns && result.destination) {
    if (!result.region) result.region = aligned_part(facts.stretch, facts.page, pages_per_region);
    result.pins = true;
    result.pin_until_ns = opinion.stays_until_ns;
    result.pin_begins = own(history).begin_pin(*result.region, facts.page, opinion.stays_until_ns);
  }
  return result;
}

ProcessorMask OwnPolicy::on_arrival(const Arrival& arrival,
                                    std::unique_ptr<BlockHistory>& history) const {
  try {
    OwnHistory& known = own(history);
    if (arrival.cause != MoveCause::thrash_pin) known.leave(arrival.run);
    const bool thrashes = theirs_->on_arrival({{arrival.run.first, arrival.run.count},
                                               number_of(arrival.to),
                                               to_theirs(arrival.cause),
                                               arrival.is_copy,
                                               arrival.now_ns},
                                              known.theirs);
    return thrashes ? arrival.to.bit() : 0;
  } catch (...) {
    complain_once("throws when pages have moved");
  }
  return 0;
}

void OwnPolicy::on_release(PageRun run, BlockHistory& history) const {
  static_cast<OwnHistory&>(history).leave(run);
}

PageMask OwnPolicy::end_temporary_pins(std::uint64_t now_ns, BlockHistory& history) const {
  PageMask ended;
  std::erase_if(static_cast<OwnHistory&>(history).pins, [&](const OwnHistory::TemporaryPin& pin) {
    const bool over = pin.until_ns <= now_ns;
    if (over) ended |= PageMask::of({pin.page, 1});
    return over;
  });
  return ended;
}

}  // namespace wherry::impl
