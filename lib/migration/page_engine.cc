#include "migration/page_engine.h"

#include "base/check.h"

namespace wherry::impl {
namespace {

// How often a kernel answer "try again" without any progress is believed. Each comes from a
// concurrent change of the process's mappings, which ends; the limit keeps a broken kernel from
// holding a block for ever.
constexpr int attempts_max = 10'000;

PageSpan rest_of(PageSpan span, std::uint64_t done) {
  return {span.first + done, span.count - done};
}

}  // namespace

PageEngine::PageEngine(std::span<ProcessorMemory* const> processors)
    : count_(static_cast<int>(processors.size())) {
  for (std::size_t i = 0; i < processors.size(); ++i) processors_[i] = processors[i];
}

// Runs fill_from(rest) until the whole span is in the target's pool, advancing over what arrived. A
// page that is there already contradicts the books: success would let the caller punch the only
// true copy, so it is thrown out and filled again. When the process has gone nothing has arrived:
// nobody is left who could see it.
template <typename Fill>
OpResult PageEngine::fill(ProcessorMemory& target, PageSpan span, Fill fill_from) const {
  std::uint64_t done = 0;
  for (int attempt = 0; attempt < attempts_max; ++attempt) {
    const OpResult result = fill_from(rest_of(span, done));
    done += result.bytes / page_size;
    if (result.bytes != 0) attempt = 0;
    switch (result.status) {
      case OpStatus::ok:
        return {OpStatus::ok, span.bytes()};
      case OpStatus::incomplete:
        break;
      case OpStatus::occupied:
        count(target.counters.false_residency);
        punch(target, {span.first + done, 1});
        break;
      case OpStatus::process_gone:
        if (done != 0) punch(target, {span.first, done});
        return {OpStatus::process_gone, 0};
      default:
        return {result.status, done * page_size};
    }
  }
  return {OpStatus::incomplete, done * page_size};
}

void PageEngine::punch(ProcessorMemory& owner, PageSpan span) const {
  // The kernel frees pages of a private in-memory file without needing memory; any error is a wrong
  // call of ours.
  const int error = owner.file.punch(span);
  WHERRY_CHECK(error == 0, "punch of {} pages at {} from pool {}: errno {}", span.count, span.first,
               owner.id.index, error);
}

void PageEngine::lift_protection(ProcessorMemory& owner, PageSpan span) const {
  // Not more than an optimization: a page left protected faults once more, and is unprotected then.
  for (int attempt = 0; attempt < attempts_max; ++attempt)
    if (owner.mapper.write_unprotect(span).status != OpStatus::incomplete) return;
}

void PageEngine::requeue(Block& block, std::uint64_t number, Processor p, bool held_before) {
  if (p.is_host()) return;  // the host's pool is where pages are evicted to
  const bool holds = !block.at(p).resident.none();
  if (holds && !held_before) at(p).queue.push(number);
  if (!holds && held_before) at(p).queue.remove(number);
}

OpResult PageEngine::populate(Block& block, std::uint64_t number, PageRun run, Processor p,
                              Room& room) {
  ProcessorMemory& target = at(p);
  const PageSpan span = span_of(number, run);
  const OpResult result =
      fill(target, span, [&](PageSpan rest) { return target.mapper.zero(rest); });
  const PageRun done{run.first, static_cast<unsigned>(result.bytes / page_size)};
  if (done.count == 0) return result;
  const bool held = !block.at(p).resident.none();
  room.spend(done.count);
  block.populated(p, done);
  requeue(block, number, p, held);
  count(target.counters.populated, done.count);
  return result;
}

OpResult PageEngine::migrate(Block& block, std::uint64_t number, PageRun run, Processor from,
                             Processor to, Room& room, MoveCause cause) {
  ProcessorMemory& source = at(from);
  ProcessorMemory& target = at(to);
  const PageSpan span = span_of(number, run);

  // 1. Nobody may write the old copy any more. A process that is gone cannot; a page that is not
  // mapped is not written.
  const bool writable = !(PageMask::of(run) & block.at(from).mapped).none();
  if (writable) {
    const OpResult protect = source.mapper.write_protect(span);
    if (!protect && protect.status != OpStatus::process_gone) {
      lift_protection(source, span);
      return {protect.status, 0};
    }
  }

  // 2. The new copy arrives write-protected: while two copies exist, neither can change.
  const OpResult result = fill(target, span, [&](PageSpan rest) {
    return target.mapper.copy_protected(rest, source.file.alias(rest.first));
  });
  const PageRun done{run.first, static_cast<unsigned>(result.bytes / page_size)};
  const PageSpan moved = span_of(number, done);
  if (!moved.empty()) {
    // 3. The old copy goes, and with it every mapping of it, in every process.
    punch(source, moved);
    // 4. State, before anybody can act on the new place.
    const bool held_source = !block.at(from).resident.none();
    const bool held_target = !block.at(to).resident.none();
    room.spend(moved.count);
    source.capacity.give_back(moved.count);
    block.moved(from, to, done);
    requeue(block, number, from, held_source);
    requeue(block, number, to, held_target);
    count(source.counters.migrated_out, moved.count);
    count(target.counters.migrated_in, moved.count);
    count(target.counters.bytes_copied, moved.bytes());
    if (cause == MoveCause::eviction) count(source.counters.evicted, moved.count);
    // 5. One copy, one place: it may be written again.
    lift_protection(target, moved);
  }
  if (writable && moved.count != span.count) lift_protection(source, rest_of(span, moved.count));
  return result;
}

OpResult PageEngine::map(Block& block, std::uint64_t number, PageRun run, Processor p) {
  ProcessorMemory& owner = at(p);
  PageSpan rest = span_of(number, run);
  for (int attempt = 0; attempt < attempts_max && !rest.empty(); ++attempt) {
    const OpResult result = owner.mapper.map_resident(rest);
    if (result.bytes != 0) attempt = 0;
    rest = rest_of(rest, result.bytes / page_size);
    switch (result.status) {
      case OpStatus::ok:
      case OpStatus::incomplete:
        break;
      case OpStatus::occupied:  // mapped already: as good
        rest = rest_of(rest, 1);
        attempt = 0;
        break;
      default:
        return {result.status, 0};
    }
  }
  if (!rest.empty()) return {OpStatus::incomplete, 0};
  block.mapped(p, run);
  return {OpStatus::ok, span_of(number, run).bytes()};
}

void PageEngine::release(Block& block, std::uint64_t number, PageRun run) {
  const PageMask mask = PageMask::of(run);
  for (int i = 0; i < count_; ++i) {
    const PageMask held = block.at(Processor{i}).resident & mask;
    if (held.none()) continue;
    for (const PageRun part : runs_of(held)) punch(at(Processor{i}), span_of(number, part));
    at(Processor{i}).capacity.give_back(held.count());
  }
  std::array<bool, max_processors> held_before{};
  for (int i = 0; i < count_; ++i) held_before[i] = !block.at(Processor{i}).resident.none();
  block.released(run);
  for (int i = 0; i < count_; ++i) requeue(block, number, Processor{i}, held_before[i]);
}

}  // namespace wherry::impl
