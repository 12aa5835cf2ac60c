#include "policy/thrashing.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <new>

namespace wherry::impl {

void Thrashing::forget_page(unsigned number) {
  page(number) = {};
  const PageMask mask = PageMask::of({number, 1});
  thrashing_ -= mask;
  pinned_ -= mask;
}

void Thrashing::forget(PageRun run) {
  if (!pages_) return;
  for (unsigned number = run.first; number < run.end(); ++number) forget_page(number);
}

ProcessorMask Thrashing::moved(PageRun run, Processor to, std::uint64_t now_ns,
                               const ThrashingParameters& parameters) {
  const bool fights =
      last_ns_ != 0 && !(last_to_ == to) && now_ns - last_ns_ <= parameters.lapse_ns;
  last_ns_ = now_ns;
  last_to_ = to;
  if (!pages_) {
    if (!fights) return 0;
    // The caller is in the middle of a move, which must not fail. Without memory, the move is not
    // counted.
    try {
      pages_ = make_mapped<Pages>();
    } catch (const std::bad_alloc&) {
      return 0;
    }
  }
  ProcessorMask fighters = 0;
  for (unsigned number = run.first; number < run.end(); ++number)
    if (count_move(number, to, now_ns, parameters)) fighters |= page(number).users;
  return fighters;
}

bool Thrashing::count_move(unsigned number, Processor to, std::uint64_t now_ns,
                           const ThrashingParameters& parameters) {
  Page& page = this->page(number);
  const bool in_a_row =
      page.last_ns != 0 && now_ns - page.quiet_since(now_ns) <= parameters.lapse_ns;
  if (!in_a_row && page.pinned_at == no_processor) forget_page(number);
  page.users |= to.bit();
  page.last_ns = now_ns;
  if (!in_a_row) return false;
  const bool thrashed = page.moves >= parameters.threshold;
  if (!thrashed) ++page.moves;
  if (page.moves < parameters.threshold) return false;
  last_thrashing_ns_ = now_ns;
  thrashing_ |= PageMask::of({number, 1});
  return !thrashed;
}

bool Thrashing::has_aged(std::uint64_t now_ns, const ThrashingParameters& parameters) {
  if (last_thrashing_ns_ == 0 || now_ns - last_thrashing_ns_ <= parameters.epoch_ns ||
      !pinned_.none() || resets_ >= parameters.resets_max)
    return false;
  ++resets_;
  pages_.reset();
  thrashing_ = {};
  last_ns_ = last_thrashing_ns_ = 0;
  return true;
}

void Thrashing::roll_period(Page& page, Processor faulting_processor, std::uint64_t now_ns,
                            const ThrashingParameters& parameters) {
  if (now_ns > page.period_end_ns) {
    const bool again = page.privileged == faulting_processor.index;
    page.period_end_ns = now_ns + parameters.nap_ns;
    page.throttled = 0;
    page.privileged = again ? no_processor : static_cast<std::int8_t>(faulting_processor.index);
  } else if (page.privileged == no_processor && (page.throttled & faulting_processor.bit()) == 0) {
    page.privileged = static_cast<std::int8_t>(faulting_processor.index);
  }
}

Thrashing::Hint Thrashing::hint(const Request& request, const AccessCosts& access_costs,
                                const ThrashingParameters& parameters) {
  if (!pages_ || has_aged(request.now_ns, parameters)) return {};
  Page& page = this->page(request.page);
  if (page.moves < parameters.threshold) return {};
  if (page.pinned_at != no_processor && page.unpin_ns != 0 && request.now_ns >= page.unpin_ns) {
    return {};  // unpin() is about to forget the page
  }
  if ((page.throttled & request.faulting_processor.bit()) != 0) {
    if (request.now_ns <= page.period_end_ns && page.privileged != request.faulting_processor.index)
      return throttle(page, request.faulting_processor);
    page.throttled &= ~request.faulting_processor.bit();
  }
  if (page.pinned_at == no_processor &&
      request.now_ns - page.quiet_since(request.now_ns) > parameters.lapse_ns)
    return {};
  page.users |= request.faulting_processor.bit();
  roll_period(page, request.faulting_processor, request.now_ns, parameters);
  return decide(request, page, access_costs, parameters);
}

// Implements the rows of the table in docs/decisions/policies.md, in the table's order.
Thrashing::Hint Thrashing::decide(const Request& request, Page& page,
                                  const AccessCosts& access_costs,
                                  const ThrashingParameters& parameters) {
  const bool privileged = page.privileged == request.faulting_processor.index;
  const bool long_enough = page.throttlings >= parameters.pin_threshold;
  const auto reaches = [&](Processor at) {
    return access_costs.all_in(access_costs.maps, page.users, at);
  };
  if (request.preferred) {
    const Processor home = *request.preferred;
    if (reaches(home)) return pin(request, page, home, parameters);
    if (request.faulting_processor == home) {
      const bool at_home = page.pinned_at == home.index;
      const bool elsewhere = page.pinned_at != no_processor && !at_home;
      if (at_home || (privileged && (elsewhere || long_enough)))
        return pin(request, page, home, parameters);
      return privileged ? Hint{} : throttle(page, request.faulting_processor);
    }
  }
  if (access_costs.all_in(access_costs.close, page.users, request.resident))
    return pin(request, page, request.resident, parameters);
  if (page.pinned_at != no_processor) {
    const Processor at{page.pinned_at};
    if (!privileged) {
      const bool maps =
          (access_costs.maps[static_cast<std::size_t>(request.faulting_processor.index)] &
           at.bit()) != 0;
      return maps ? pin(request, page, at, parameters) : throttle(page, request.faulting_processor);
    }
    return pin(request, page, reaches(at) ? at : request.faulting_processor, parameters);
  }
  if (!privileged) return throttle(page, request.faulting_processor);
  return long_enough ? pin(request, page, request.faulting_processor, parameters) : Hint{};
}

Thrashing::Hint Thrashing::throttle(Page& page, Processor faulting_processor) {
  if ((page.throttled & faulting_processor.bit()) == 0) {
    page.throttled |= faulting_processor.bit();
    if (page.throttlings != std::numeric_limits<std::uint8_t>::max()) ++page.throttlings;
  }
  page.throttled_until_ns = page.period_end_ns;
  return {Hint::Kind::throttle, page.period_end_ns};
}

Thrashing::Hint Thrashing::pin(const Request& request, Page& page, Processor at,
                               const ThrashingParameters& parameters) {
  const bool begins = page.pinned_at == no_processor;
  if (begins) {
    page.unpin_ns = parameters.pin_ns == 0 ? 0 : request.now_ns + parameters.pin_ns;
    pinned_ |= PageMask::of({request.page, 1});
  }
  page.pinned_at = static_cast<std::int8_t>(at.index);
  page.throttlings = 0;
  return {Hint::Kind::pin, page.unpin_ns, at, begins};
}

PageMask Thrashing::unpin(std::uint64_t now_ns) {
  PageMask done;
  for (const PageRun run : runs_of(pinned_))
    for (unsigned number = run.first; number < run.end(); ++number) {
      if (page(number).unpin_ns == 0 || page(number).unpin_ns > now_ns) continue;
      done |= PageMask::of({number, 1});
      forget_page(number);
    }
  return done;
}

}  // namespace wherry::impl
