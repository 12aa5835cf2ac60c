#include "policy/advice_rules.h"

#include "support/catch.h"

namespace wherry::test::advice_rules_test {

using namespace wherry::impl;

namespace {

FaultFacts touch(unsigned page, PageRun stretch) {
  FaultFacts facts;
  facts.faulting_processor = Processor::device(1);
  facts.table = facts.faulting_processor;
  facts.page = page;
  facts.stretch = stretch;
  return facts;
}

}  // namespace

TEST_CASE("the page moves to the faulting processor with its natural region") {
  const AdviceRules rules(16);
  const Decision decision = rules.decide(touch(37, {0, 512}), {});
  CHECK(decision.destination == Processor::device(1));
  CHECK(decision.region == PageRun{32, 16});
}

TEST_CASE("the region ends where the range of equal advice ends") {
  const AdviceRules rules(16);
  CHECK(rules.decide(touch(37, {35, 4}), {}).region == PageRun{35, 4});
  CHECK(rules.decide(touch(33, {0, 34}), {}).region == PageRun{32, 2});
}

TEST_CASE("a region of one page brings no other pages, one of a block brings the whole block") {
  CHECK(AdviceRules(1).decide(touch(511, {0, 512}), {}).region == PageRun{511, 1});
  CHECK(AdviceRules(512).decide(touch(5, {0, 512}), {}).region == PageRun{0, 512});
}

TEST_CASE(
    "where a page is only mapped, its whole region is mapped, whatever the policy would move") {
  const AdviceRules rules(16);
  FaultFacts facts = touch(37, {0, 512});
  facts.residents = Processor::host().bit();
  Opinion opinion{.destination = Processor::host()};
  opinion.region = PageRun{37, 1};
  CHECK(rules.decide(facts, opinion).destination == Processor::host());
  CHECK(rules.decide(facts, opinion).region == PageRun{32, 16});
  opinion.region = PageRun{0, 64};
  CHECK(rules.decide(facts, opinion).region == PageRun{0, 64});
  facts.stretch = {36, 4};
  opinion.region = PageRun{37, 1};
  CHECK(rules.decide(facts, opinion).region == PageRun{36, 4});
  // If the program's advice decides, it does so for the whole stretch of pages with this advice.
  facts.stretch = {20, 300};
  const bool preferred = GENERATE(true, false);
  if (preferred)
    facts.preferred = Processor::host();
  else
    facts.accessed_by = facts.faulting_processor.bit();
  CHECK(rules.decide(facts, {}).destination == Processor::host());
  CHECK(rules.decide(facts, {}).region == PageRun{20, 300});

  // The policy chooses the region that moves. What stays because of other processors is mapped by
  // regions, except temporary pins.
  facts = touch(37, {0, 512});
  facts.residents = Processor::host().bit();
  opinion.destination.reset();
  CHECK(rules.decide(facts, opinion).region == PageRun{37, 1});
  opinion.destination = Processor::host();
  CHECK(rules.decide(facts, opinion).region == PageRun{32, 16});
  opinion.pins = true;
  CHECK(rules.decide(facts, opinion).region == PageRun{37, 1});
}

TEST_CASE("the region grows to the grain, within the range of equal advice") {
  FaultFacts facts = touch(137, {40, 400});
  facts.residents = Processor::host().bit();
  facts.grain = 16;
  CHECK(AdviceRules(1).decide(facts, {}).region == PageRun{128, 16});
  CHECK(AdviceRules(64).decide(facts, {}).region == PageRun{128, 64});
  facts.grain = 512;
  CHECK(AdviceRules(16).decide(facts, {}).region == PageRun{40, 400});
  facts.pinned = true;
  CHECK(AdviceRules(16).decide(facts, {}).destination == Processor::host());
  CHECK(AdviceRules(16).decide(facts, {}).region == PageRun{40, 400});
}

TEST_CASE("for the grain a whole block is created if a good part of it exists, else a region") {
  FaultFacts facts = touch(137, {0, 512});
  facts.grain = 512;
  facts.present = 127;
  CHECK(AdviceRules(1).decide(facts, {}).region == PageRun{128, 16});
  CHECK(AdviceRules(64).decide(facts, {}).region == PageRun{128, 64});
  facts.present = 128;
  CHECK(AdviceRules(1).decide(facts, {}).region == PageRun{0, 512});
}

TEST_CASE("holes are filled for the grain at the first-touch destination, unless they are pinned") {
  FaultFacts facts = touch(137, {0, 512});
  facts.residents = facts.faulting_processor.bit();
  facts.present = 200;
  CHECK_FALSE(AdviceRules(1).decide(facts, {}).fills);
  facts.grain = 512;
  CHECK(AdviceRules(1).decide(facts, {}).fills);
  facts.present = 100;  // too few for so many holes
  CHECK_FALSE(AdviceRules(1).decide(facts, {}).fills);
  facts.grain = 16;
  CHECK(AdviceRules(1).decide(facts, {}).fills);
  facts.preferred = Processor::host();
  CHECK_FALSE(AdviceRules(1).decide(facts, {}).fills);
  facts.preferred = facts.faulting_processor;
  CHECK(AdviceRules(1).decide(facts, {}).fills);
  facts.pinned = true;
  CHECK_FALSE(AdviceRules(1).decide(facts, {}).fills);
}

TEST_CASE("pages that were evicted together return together, but not to another processor") {
  const AdviceRules rules(16);
  FaultFacts facts = touch(37, {20, 300});
  facts.evicted = true;
  facts.residents = Processor::host().bit();
  CHECK(rules.decide(facts, {}).region == PageRun{20, 300});
  Opinion opinion{.destination = Processor::host()};
  CHECK(rules.decide(facts, opinion).destination == Processor::host());
  CHECK(rules.decide(facts, opinion).region == PageRun{32, 16});
}

TEST_CASE("without advice the page moves to the faulting processor from wherever it is") {
  FaultFacts facts = touch(3, {0, 512});
  facts.residents = Processor::host().bit();
  facts.write = GENERATE(false, true);
  const Decision decision = AdviceRules(16).decide(facts, {});
  CHECK(decision.destination == facts.faulting_processor);
  CHECK_FALSE(decision.duplicate);
}

TEST_CASE("read-mostly: a read makes a copy, a write leaves one page, whatever the other advice") {
  FaultFacts facts = touch(3, {0, 512});
  facts.residents = Processor::host().bit();
  facts.read_mostly = true;
  facts.preferred = Processor::host();
  facts.accessed_by = facts.faulting_processor.bit();
  facts.write = GENERATE(false, true);
  const Decision decision = AdviceRules(16).decide(facts, {});
  CHECK(decision.destination == facts.faulting_processor);
  CHECK(decision.duplicate == !facts.write);
}

TEST_CASE("read-mostly: at least the region gets a copy, and what the policy expects besides") {
  FaultFacts facts = touch(3, {0, 512});
  facts.residents = Processor::host().bit();
  facts.read_mostly = true;
  CHECK(AdviceRules(16).decide(facts, {}).region == PageRun{0, 16});
  CHECK(AdviceRules(16).decide(facts, {.region = PageRun{3, 1}}).region == PageRun{0, 16});
  CHECK(AdviceRules(16).decide(facts, {.region = PageRun{0, 256}}).region == PageRun{0, 256});
}

TEST_CASE(
    "preferred location: first touches go there, pages there stay, others move to the faulting "
    "processor") {
  FaultFacts facts = touch(3, {0, 512});
  facts.preferred = Processor::host();
  CHECK(AdviceRules(16).decide(facts, {}).destination == Processor::host());
  facts.residents = Processor::host().bit();
  CHECK(AdviceRules(16).decide(facts, {}).destination == Processor::host());
  facts.residents = Processor::device(0).bit();
  CHECK(AdviceRules(16).decide(facts, {}).destination == facts.faulting_processor);
  facts.preferred = facts.faulting_processor;
  facts.accessed_by = facts.faulting_processor.bit();
  CHECK(AdviceRules(16).decide(facts, {}).destination == facts.faulting_processor);
}

TEST_CASE("accessed-by: an existing page stays, a new one is created at the faulting processor") {
  FaultFacts facts = touch(3, {0, 512});
  facts.accessed_by = facts.faulting_processor.bit();
  CHECK(AdviceRules(16).decide(facts, {}).destination == facts.faulting_processor);
  facts.residents = Processor::device(0).bit();
  CHECK(AdviceRules(16).decide(facts, {}).destination == Processor::device(0));
  facts.preferred = Processor::host();  // elsewhere: accessed-by still prevents the move
  CHECK(AdviceRules(16).decide(facts, {}).destination == Processor::device(0));
}

TEST_CASE("a pinned page stays where it is, whatever the other advice, and gets no copies") {
  FaultFacts facts = touch(3, {0, 512});
  facts.pinned = true;
  facts.residents = Processor::device(2).bit();
  facts.read_mostly = GENERATE(false, true);
  facts.write = GENERATE(false, true);
  if (GENERATE(false, true)) facts.preferred = facts.faulting_processor;
  const Decision decision = AdviceRules(16).decide(facts, {});
  CHECK(decision.destination == Processor::device(2));
  CHECK_FALSE(decision.duplicate);
  // No page moves, so all of them are mapped at once.
  CHECK(decision.region == facts.stretch);
}

}  // namespace wherry::test::advice_rules_test
