// Turns a fault into a decision. The rules of the documentation of the advice come first. Where
// advice does not determine the destination, the policy's opinion applies. Without an opinion the
// page migrates to the faulting processor.
//
// The decision covers the natural, aligned region of the page (64 KiB unless configured), clipped
// to the allocation and to equal advice. A block that was evicted as a whole (policy/replacement.h)
// returns as a whole: that costs one fault instead of one for each region.
//
// Where the trap needs a coarser grain, the region grows to that grain, and absent pages of the
// region are created, because holes divide mappings. A whole block is not created for a few pages:
// sparse data would take many times the memory that it needs.
#pragma once

#include "policy/policy.h"

namespace wherry::impl {

// Which rule determined the destination of a page. The numbers are public (wherry/explain.h):
// append new ones at the end.
enum class Reason : std::uint8_t {
  faulting_processor,  // no rule and no opinion: the page goes to the faulting processor
  resident,            // the faulting processor already holds it
  pinned,              // the page is pinned
  read_mostly,         // the faulting processor gets a copy; on a write, the only one
  preferred,           // the program's preferred location
  accessed_by,         // accessed-by: the faulting processor maps it where it is
  policy,              // the policy's opinion
  temporary_pin,       // the policy's temporary pin: the page would soon be taken away again
  no_space,            // the destination has no free pages
  no_mappings,         // the process is out of mappings: the page goes to the pool in its view
  no_fault,            // not the result of a fault: the event's cause says why
  held,                // somebody holds a page of its huge page, which Linux could not split
};
inline constexpr unsigned reasons = 12;

// Where the page should be for this access, and which of its neighbours are treated alike. The
// fault service takes those pages of `region` that are in the same place as the faulting page. If
// the destination is not the faulting processor, the faulting processor maps the page there.
struct Decision {
  Processor destination;
  // Contains the faulting page and lies inside FaultFacts::stretch.
  PageRun region;
  Reason reason = Reason::faulting_processor;  // the rule that chose the destination
  bool duplicate = false;                      // true: other copies stay
  bool fills = false;                          // true: absent pages of the region are created there
  std::uint64_t wait_until_ns = 0;             // the fault is throttled until then
  MoveCause cause = MoveCause::fault;
  // Whether the policy chose the region, because it expects accesses to more of it than the page.
  bool speculates = false;
  // See Opinion::sweeps; 0 if the program has given advice.
  int sweeps = 0;
  bool pin_begins = false;
  // When the temporary pin ends and the policy is asked again; 0: never.
  std::uint64_t pin_until_ns = 0;
};

class AdviceRules {
 public:
  // `region_pages`: pages of a region; a power of two, at most pages_per_block.
  explicit AdviceRules(unsigned region_pages) : region_pages_(region_pages) {}

  // Whether the policy is asked: not for pages that the program has pinned or made read-mostly.
  static bool leaves_room(const FaultFacts& facts) { return !facts.pinned && !facts.read_mostly; }
  // Applies the rules in the documentation's order of precedence.
  Decision decide(const FaultFacts& facts, const Opinion& opinion) const;

 private:
  struct Place {
    Processor at;
    Reason reason;
  };
  static Place place(const FaultFacts& facts, const Opinion& opinion);
  // `only_maps`: the page stays where it is, and the faulting processor maps it there.
  PageRun region(const FaultFacts& facts, const Opinion& opinion, bool only_maps) const;

  unsigned region_pages_;
};

}  // namespace wherry::impl
