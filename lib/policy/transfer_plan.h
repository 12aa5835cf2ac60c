// What has to be carried for a decision: which pages, from where, as what. The same for a live run
// and a replay.
#pragma once

#include <bit>

#include "pages/block.h"
#include "policy/advice_rules.h"

namespace wherry::impl {

struct TransferPlan {
  bool exists = false;  // there are pages; else they are created
  // They stay where they are, too: what has copies gets one more, and all end when it is written.
  bool copy = false;
  Processor from = {};
  PageMask pages;  // the faulting page, and those neighbours that are where it is
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
  plan.pages =
      there - (plan.copy ? block.at(decision.destination).resident : block.held_beside(plan.from));
  return plan;
}

}  // namespace wherry::impl
