// Which pages a decision transfers, from which pool, and as a move or a copy. Live runs and replays
// use the same code.
#pragma once

#include <bit>

#include "pages/block.h"
#include "policy/advice_rules.h"

namespace wherry::impl {

struct TransferPlan {
  // Whether the pages are resident somewhere. If not, they are created.
  bool exists = false;
  // Whether the source keeps its pages. A page that has copies gets one more; a write ends all of
  // them.
  bool copy = false;
  Processor from = {};
  // The faulting page and those neighbours that the same pool holds, or that are absent too.
  PageMask pages;
};

// Requires: the page is not at the decision's destination.
inline TransferPlan plan_transfer(const Block& block, const FaultFacts& facts,
                                  const Decision& decision) REQUIRES(block.lock) {
  TransferPlan plan;
  plan.pages = PageMask::of(decision.region);
  plan.exists = facts.residents != 0;
  if (!plan.exists) {
    plan.pages &= block.absent();
    return plan;
  }
  plan.from = Processor{std::countr_zero(facts.residents)};
  plan.copy = decision.duplicate || std::popcount(facts.residents) > 1;
  const PageMask there = plan.pages & block.at(plan.from).resident;
  plan.pages = there - (plan.copy ? block.at(decision.destination).resident
                                  : block.resident_beside(plan.from));
  return plan;
}

}  // namespace wherry::impl
