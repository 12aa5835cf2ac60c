// The C functions of wherry/explain.h.
#include <fmt/format.h>
#include <wherry/explain.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

#include "api/answer.h"
#include "api/entry.h"
#include "base/clock.h"
#include "objects/failures/bad_arguments.h"

using namespace wherry::impl;

namespace {

constexpr std::size_t max_decisions = WHERRY_DECISIONS_MAX;
constexpr std::size_t smallest = offsetof(wherryExplanation, decision);

// The public constants have the values of those in policy/advice_rules.h.
static_assert(WHERRY_REASON_HELD + 1 == reasons &&
              WHERRY_REASON_HELD == static_cast<int>(Reason::held));
static_assert(WHERRY_REASON_ACCESSED_BY == static_cast<int>(Reason::accessed_by));
static_assert(WHERRY_NO_PROCESSOR == DecisionRecord::no_processor);

constexpr std::array<std::string_view, reasons> reason_texts{
    "no advice applies, so it goes to the faulting processor",
    "it was there already",
    "it is pinned",
    "it is advised as read-mostly",
    "that is its preferred location",
    "it is advised as accessed by the faulting processor",
    "the policy chose that location",
    "the policy keeps it there for a while, because moving it would not pay",
    "there were no free pages elsewhere",
    "the faulting processor has too many mappings to map it remotely",
    "there was no fault",
    "somebody holds a page of its huge page, so it cannot move now",
};

wherryDecision public_decision(const Runtime& runtime, const DecisionRecord& record) {
  const PageSpan span = span_of(record.block, record.run);
  wherryDecision decision{};
  decision.time_ns = record.time_ns;
  decision.address = runtime.layout().address_of(span.first);
  decision.bytes = span.bytes();
  decision.waited_ns = record.waited_ns;
  decision.faulting_processor = record.faulting_processor;
  decision.access = code_of(record.access);
  decision.source = record.source;
  decision.destination = record.destination;
  decision.reason = static_cast<std::int32_t>(record.reason);
  decision.cause = code_of(record.cause);
  return decision;
}

// Returns false if the address has no page of managed memory.
bool explain(Runtime& runtime, CUdeviceptr address, wherryExplanation& explanation) {
  const auto known = runtime.inspector().explain(address, WHERRY_DECISIONS_MAX);
  if (!known) return false;
  explanation = {};
  explanation.page = address / page_size * page_size;
  explanation.resident = known->where.resident;
  explanation.mapped_read = known->where.mapped;
  explanation.mapped_write = known->where.writable;
  explanation.node = known->where.node;
  explanation.read_mostly = known->advice.read_mostly ? 1 : 0;
  explanation.pinned = known->advice.pinned ? 1 : 0;
  explanation.preferred_location = known->advice.preferred.is_none()
                                       ? WHERRY_NO_PROCESSOR
                                       : index_of(known->advice.preferred.processor());
  explanation.accessed_by = known->advice.accessed_by;
  for (const DecisionRecord& record : known->decisions)
    explanation.decision[explanation.decisions++] = public_decision(runtime, record);
  return true;
}

CUresult refuse_page(CUdeviceptr address) {
  return fail(CUDA_ERROR_INVALID_VALUE,
              "{:#x} is in no live managed or device allocation (was it freed?)", address);
}

std::string processor_text(int processor) {
  return processor == 0 ? "the host" : fmt::format("device {}", processor - 1);
}
std::string processors_text(std::uint32_t mask) {
  std::string text;
  for (int p = 0; p < max_processors; ++p)
    if ((mask & Processor{p}.bit()) != 0) text += (text.empty() ? "" : ", ") + processor_text(p);
  return text.empty() ? "no processor" : text;
}

std::string advice_text(const wherryExplanation& explanation) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  if (explanation.pinned != 0) add("pinned");
  if (explanation.read_mostly != 0) add("read-mostly");
  if (explanation.preferred_location != WHERRY_NO_PROCESSOR)
    add("preferred location " + processor_text(explanation.preferred_location));
  if (explanation.accessed_by != 0) add("accessed by " + processors_text(explanation.accessed_by));
  return text.empty() ? "none" : text;
}

std::string decision_text(const wherryDecision& decision, std::uint64_t now) {
  std::string text =
      fmt::format("  {:.3f} ms ago: ", static_cast<double>(now - decision.time_ns) / 1e6);
  const auto reason = static_cast<std::size_t>(decision.reason);
  if (decision.faulting_processor == WHERRY_NO_PROCESSOR)
    text += fmt::format("{}", to_string(static_cast<EventCause>(decision.cause)));
  else
    text += fmt::format("{} {} it{}", processor_text(decision.faulting_processor),
                        decision.access == WHERRY_EVENT_WRITE ? "wrote" : "read",
                        decision.cause == WHERRY_CAUSE_SAMPLE ? ", as samples show" : "");
  if (decision.source == WHERRY_NO_PROCESSOR)
    text += fmt::format("; it was created at {}", processor_text(decision.destination));
  else if (decision.source != decision.destination)
    text += fmt::format("; it went from {} to {}", processor_text(decision.source),
                        processor_text(decision.destination));
  else
    text += fmt::format("; it is mapped at {}", processor_text(decision.destination));
  if (decision.bytes > page_size) text += fmt::format(", {} KiB in all", decision.bytes / 1024);
  if (decision.faulting_processor != WHERRY_NO_PROCESSOR)
    text += fmt::format(": {}", reason_texts[reason]);
  return text + "\n";
}

std::string text_of(const wherryExplanation& explanation, std::uint64_t now) {
  std::string text = fmt::format("page {:#x}: in the memory of {}", explanation.page,
                                 processors_text(explanation.resident));
  if (explanation.node >= 0) text += fmt::format(" (node {})", explanation.node);
  text += fmt::format("; mapped by {}\nadvice: {}\n", processors_text(explanation.mapped_read),
                      advice_text(explanation));
  text += explanation.decisions == 0 ? "no decision about it is recorded\n"
                                     : "decisions, latest first:\n";
  for (std::uint32_t i = 0; i < explanation.decisions; ++i)
    text += decision_text(explanation.decision[i], now);
  return text;
}

}  // namespace

CUresult wherryExplainPage(CUdeviceptr address, wherryExplanation* explanation) {
  return enter([&](Driver& driver) {
    if (explanation == nullptr) return refuse_null("explanation");
    if (explanation->size < smallest) return refuse_size(explanation->size);
    wherryExplanation value;
    if (!explain(driver.runtime(), address, value)) return refuse_page(address);
    const std::size_t fitting = (explanation->size - smallest) / sizeof(wherryDecision);
    value.decisions = std::min(
        value.decisions, static_cast<std::uint32_t>(std::min<std::size_t>(fitting, max_decisions)));
    answer(explanation, value);
    return CUDA_SUCCESS;
  });
}

CUresult wherryDescribePage(CUdeviceptr address, char* text, size_t bytes, size_t* needed) {
  return enter([&](Driver& driver) {
    if (text == nullptr && bytes != 0) return refuse_null("text");
    wherryExplanation value;
    if (!explain(driver.runtime(), address, value)) return refuse_page(address);
    const std::string all = text_of(value, now_ns());
    if (needed != nullptr) *needed = all.size() + 1;
    if (bytes == 0) return CUDA_SUCCESS;
    const std::size_t fitting = std::min(all.size(), bytes - 1);
    std::memcpy(text, all.data(), fitting);
    text[fitting] = '\0';
    return CUDA_SUCCESS;
  });
}
