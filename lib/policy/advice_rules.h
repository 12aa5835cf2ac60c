// What a fault leads to: first what the documentation of the advice says, then, where that leaves
// room, what the policy thinks, and where that has no opinion: the page goes to whoever touched it.
// It brings along its natural, aligned region (64 KiB unless configured), as far as its allocation
// and equal advice reach. What was evicted as one (policy/replacement.h) comes back as one: that
// costs one fault instead of one for each region. Where the trap needs a coarser grain the region
// grows to it, and what is nowhere of it is created, since holes divide mappings; but no block is
// created for the sake of a few pages: sparse data would take many times the memory that it needs.
#pragma once

#include "policy/policy.h"

namespace wherry::impl {

// Which rule has said where a page should be. Public (wherry/events.h): new ones go to the end.
enum class Reason : std::uint8_t {
  touched,      // nobody has an opinion: it goes to who touched it
  there,        // who touched it has it
  pinned,       // it must not move
  read_mostly,  // who touched it gets a copy, or on a write is left with the only one
  preferred,    // it is, or comes, where the program prefers it
  accessed_by,  // who touched it is advised to map it where it is
  policy,       // the policy wants it there
  policy_stay,  // ... and for a while, since it would only be taken away again
  no_room,      // where it should be there is none
  no_mappings,  // who touched it can map no more, so that it comes to the memory that he sees
  no_fault,     // nobody touched it: the cause says why
};
inline constexpr unsigned reasons = 11;

// Where the page should be for this access, and how many of its neighbours are treated alike. The
// engine takes those pages of `region` that are in the same place as the faulting page now. Where
// the destination is not the toucher, the toucher maps the page there.
struct Decision {
  Processor destination;
  PageRun region;                   // contains the faulting page; inside the stretch
  Reason reason = Reason::touched;  // for the destination
  bool duplicate = false;           // other copies stay
  bool fills = false;               // what of the region is nowhere is created at the destination
  std::uint64_t wait_until_ns = 0;  // nothing is done before
  MoveCause cause = MoveCause::fault;
  bool speculates =
      false;  // the policy has chosen the region: it expects more of it to be used than the page
  bool pin_begins = false;
  std::uint64_t pin_until_ns = 0;  // the policy wants to be asked again then; 0: it does not
};

class AdviceRules {
 public:
  // `region_pages`: a power of two, at most a block.
  explicit AdviceRules(unsigned region_pages) : region_pages_(region_pages) {}

  // In the order of precedence of the documentation; the policy's opinion is not asked for pages
  // that the program has made read-mostly or pinned.
  static bool leaves_room(const FaultFacts& facts) { return !facts.pinned && !facts.read_mostly; }
  Decision decide(const FaultFacts& facts, const Opinion& opinion) const;

 private:
  struct Place {
    Processor at;
    Reason reason;
  };
  static Place place(const FaultFacts& facts, const Opinion& opinion);
  // `only_maps`: the page stays where it is, and the toucher maps it there.
  PageRun region(const FaultFacts& facts, const Opinion& opinion, bool only_maps) const;

  unsigned region_pages_;
};

}  // namespace wherry::impl
