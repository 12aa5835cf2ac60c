// What has to be carried for a decision: which pages, from where, as what. The same for a live run
// and a replay.
#pragma once

#include <bit>

#include "pages/block.h"
#include "policy/advice_rules.h"

namespace wherry::impl {

struct Errand {
  bool exists = false;  // there are pages; else they are created
  // They stay where they are, too: what has copies gets one more, and all end when it is written.
  bool copy = false;
  Processor from = {};
  PageMask pages;  // the faulting page, and those neighbours that are where it is
};

// Requires: the page is not at the decision's destination.
inline Errand errand_for(const Block& block, const FaultFacts& facts, const Decision& decision)
    REQUIRES(block.lock) {
  Errand errand;
  errand.pages = PageMask::of(decision.region);
  errand.exists = facts.residents != 0;
  if (!errand.exists) {
    errand.pages &= block.absent();
    return errand;
  }
  errand.from = Processor{std::countr_zero(facts.residents)};
  errand.copy = decision.duplicate || std::popcount(facts.residents) > 1;
  const PageMask there = errand.pages & block.at(errand.from).resident;
  errand.pages = there - (errand.copy ? block.at(decision.destination).resident
                                      : block.held_beside(errand.from));
  return errand;
}

}  // namespace wherry::impl
