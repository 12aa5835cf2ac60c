// wherryExplainPage against two sources: Linux's view of where a page is, and the test's knowledge
// of why.
#include <wherry/explain.h>

#include <cstddef>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/stage.h"

namespace wherry::test::explain_test {

namespace {

Stage& stage() {
  static Stage the_stage("capacity=64M,workers=1;capacity=4M,workers=1");
  return the_stage;
}

wherryExplanation explain(const std::uint64_t* word) {
  wherryExplanation explanation{};
  explanation.size = sizeof explanation;
  WHERRY_TRY(wherryExplainPage(address_of(word), &explanation));
  return explanation;
}

std::string text_of(const std::uint64_t* word) {
  std::size_t needed = 0;
  WHERRY_TRY(wherryDescribePage(address_of(word), nullptr, 0, &needed));
  std::vector<char> text(needed);
  WHERRY_TRY(wherryDescribePage(address_of(word), text.data(), text.size(), nullptr));
  return text.data();
}

// The latest decision with that reason and faulting processor.
const wherryDecision& latest(const wherryExplanation& explanation, wherryReason reason,
                             int faulting_processor) {
  REQUIRE(explanation.decisions > 0);
  const wherryDecision& decision = explanation.decision[0];
  CHECK(decision.reason == reason);
  CHECK(decision.faulting_processor == index_of(faulting_processor));
  return decision;
}

}  // namespace

TEST_CASE("a page without accesses has no decisions, and a page that moved has all of them",
          "[system]") {
  const Words words((stage(), region_words));
  const wherryExplanation untouched = explain(words.data());
  CHECK(untouched.page == address_of(words.data()));
  CHECK(untouched.resident == 0);
  CHECK(untouched.node == -1);
  CHECK(untouched.decisions == 0);
  CHECK(untouched.preferred_location == WHERRY_NO_PROCESSOR);

  stage().write(device0, words.data(), 1);
  stage().read(host, words.data());
  const wherryExplanation moved = explain(words.data() + 5);
  CHECK(moved.page == address_of(words.data()));
  CHECK(moved.resident == stage().residents(words.data()));
  CHECK(moved.resident == bit_of(host));
  CHECK(moved.node >= 0);
  REQUIRE(moved.decisions == 2);
  const wherryDecision& taken = latest(moved, WHERRY_REASON_FAULTING_PROCESSOR, host);
  CHECK(taken.access == WHERRY_EVENT_READ);
  CHECK(taken.source == index_of(device0));
  CHECK(taken.destination == index_of(host));
  CHECK(taken.cause == WHERRY_CAUSE_FAULT);
  CHECK(taken.address == address_of(words.data()));
  CHECK(taken.bytes == region_bytes);
  const wherryDecision& made = moved.decision[1];
  CHECK(made.access == WHERRY_EVENT_WRITE);
  CHECK(made.source == WHERRY_NO_PROCESSOR);
  CHECK(made.destination == index_of(device0));
  CHECK(made.time_ns < taken.time_ns);

  const std::string text = text_of(words.data());
  INFO(text);
  CHECK(text.find("in the memory of the host") != std::string::npos);
  CHECK(text.find("it went from device 0 to the host") != std::string::npos);
  CHECK(text.find("advice: none") != std::string::npos);
}

TEST_CASE("an explanation names the advice that decided", "[system]") {
  const Words words((stage(), 4 * region_words));
  const auto region = [&](int i) { return words.data() + i * region_words; };
  advise(region(0), region_bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device1);
  advise(region(1), region_bytes, CU_MEM_ADVISE_SET_READ_MOSTLY);
  advise(region(2), region_bytes, CU_MEM_ADVISE_SET_ACCESSED_BY, device0);
  for (int i = 0; i < 4; ++i) stage().write(host, region(i), 1);
  stage().read(device0, region(1));

  const wherryExplanation preferred = explain(region(0));
  CHECK(preferred.preferred_location == index_of(device1));
  CHECK(preferred.resident == bit_of(device1));
  CHECK(latest(preferred, WHERRY_REASON_PREFERRED, host).destination == index_of(device1));
  const wherryExplanation copied = explain(region(1));
  CHECK(copied.read_mostly == 1);
  CHECK(copied.resident == (bit_of(host) | bit_of(device0)));
  latest(copied, WHERRY_REASON_READ_MOSTLY, device0);
  CHECK(explain(region(2)).accessed_by == bit_of(device0));
  CHECK(text_of(region(2)).find("advice: accessed by device 0\n") != std::string::npos);

  WHERRY_TRY(wherryPinPages(address_of(region(3)), region_bytes));
  stage().write(device0, region(3), 2);
  const wherryExplanation pinned = explain(region(3));
  CHECK(pinned.pinned == 1);
  CHECK(pinned.resident == bit_of(host));
  latest(pinned, WHERRY_REASON_PINNED, device0);
}

TEST_CASE("prefetches and evictions are explained, too", "[system]") {
  const Words words((stage(), region_words));
  stage().write(host, words.data(), 1);
  WHERRY_TRY(cuMemPrefetchAsync(address_of(words.data()), words.bytes(), location_of(device1), 0,
                                stage().session().stream(device1)));
  WHERRY_TRY(stage().session().wait(device1));
  const wherryExplanation prefetched = explain(words.data());
  CHECK(prefetched.resident == bit_of(device1));
  REQUIRE(prefetched.decisions == 2);
  CHECK(prefetched.decision[0].cause == WHERRY_CAUSE_USER_PREFETCH);
  CHECK(prefetched.decision[0].reason == WHERRY_REASON_NO_FAULT);
  CHECK(prefetched.decision[0].faulting_processor == WHERRY_NO_PROCESSOR);

  const Words more((std::size_t{8} << 20) / sizeof(std::uint64_t));
  stage().write_pages(device1, more.data(), more.bytes(), 3);
  std::size_t evicted = 0;
  for (std::size_t i = 0; i < more.size(); i += region_words) {
    const wherryExplanation explanation = explain(more.data() + i);
    if (stage().residents(more.data() + i) != bit_of(host)) continue;
    ++evicted;
    CHECK(explanation.decision[0].cause == WHERRY_CAUSE_EVICTION);
    CHECK(explanation.decision[0].source == index_of(device1));
  }
  CHECK(evicted > 0);
}

TEST_CASE("wrong arguments of wherryExplainPage, and other sizes of its struct", "[system]") {
  const Words words((stage(), region_words));
  stage().write(host, words.data(), 1);
  const CUdeviceptr address = address_of(words.data());
  wherryExplanation explanation{};
  CHECK(wherryExplainPage(address, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryExplainPage(address, &explanation) == CUDA_ERROR_INVALID_VALUE);
  explanation.size = offsetof(wherryExplanation, decision);
  explanation.decision[0].time_ns = 7;
  CHECK(wherryExplainPage(address, &explanation) == CUDA_SUCCESS);
  CHECK(explanation.decisions == 0);  // a struct of this size holds no decision
  CHECK(explanation.decision[0].time_ns == 7);
  explanation.size += sizeof(wherryDecision);
  CHECK(wherryExplainPage(address, &explanation) == CUDA_SUCCESS);
  CHECK(explanation.decisions == 1);
  CHECK(explanation.decision[0].time_ns > 7);
  explanation.size = sizeof explanation;
  CHECK(wherryExplainPage(0, &explanation) == CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryExplainPage(reinterpret_cast<CUdeviceptr>(&explanation), &explanation) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryDescribePage(address, nullptr, 5, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryDescribePage(0, nullptr, 0, nullptr) == CUDA_ERROR_INVALID_VALUE);
  char text[] = "12345678";
  CHECK(wherryDescribePage(address, text, 5, nullptr) == CUDA_SUCCESS);
  CHECK(std::string(text) == "page");
  CHECK(text[5] == '6');
}

}  // namespace wherry::test::explain_test
