#include "migration/operation_recorder.h"

#include "base/clock.h"
#include "trace/recorder.h"

namespace wherry::impl {
namespace {

// Whether pages change their place with an operation of this kind.
bool changes_places(EventKind kind) {
  return kind != EventKind::held;
}

// Whether pages that move, or are created, for this reason were not accessed.
bool is_without_access(MoveCause cause) {
  return cause != MoveCause::fault && cause != MoveCause::sample &&
         cause != MoveCause::thrash_pin && cause != MoveCause::none;
}

std::int8_t index_of(const std::optional<Processor>& p) {
  return p ? impl::index_of(*p) : TraceEvent::no_processor;
}

}  // namespace

std::uint64_t OperationRecorder::begin_ns(EventKind kind) {
  return is_recorded(kind) ? now_ns() : 0;
}

void OperationRecorder::record(const OperationRecord& operation, BlockIndex block, PageRun run) {
  if (changes_places(operation.kind) && is_without_access(operation.motive.cause) && operation.to)
    decisions_.add({.time_ns = operation.begun_ns == 0 ? now_ns() : operation.begun_ns,
                    .block = block,
                    .run = run,
                    .source = index_of(operation.from),
                    .destination = index_of(operation.to),
                    .cause = operation.motive.cause});
  if (!is_recorded(operation.kind)) return;
  const std::uint64_t now = now_ns();
  const std::uint64_t begun = operation.begun_ns == 0 ? now : operation.begun_ns;
  const auto [cause, accessed] = operation.motive;
  // Pages that came with the accessed page have another cause. If pages stay, all have one cause.
  const bool has_parts = accessed && changes_places(operation.kind);
  const PageMask page = has_parts ? PageMask::of({*accessed, 1}) : PageMask::of(run);
  // All pages came in one operation: each part gets its share of the time.
  const auto record = [&](PageRun part, MoveCause why) {
    record_part({operation.kind, why, operation.from, operation.to, begun}, block, part,
                (now - begun) * part.count / run.count);
  };
  for (const PageRun part : runs_of(PageMask::of(run) & page)) record(part, cause);
  for (const PageRun part : runs_of(PageMask::of(run) - page))
    record(part, MoveCause::speculative_prefetch);
}

void OperationRecorder::record_part(const OperationRecord& operation, BlockIndex block, PageRun run,
                                    std::uint64_t duration_ns) const {
  const PageSpan span = span_of(block, run);
  const auto address = address_of(span.first);
  if (!address) return;  // the module that is being loaded records its variables itself
  record_event({.time_ns = operation.begun_ns,
                .duration_ns = duration_ns,
                .address = *address,
                .bytes = span.bytes(),
                .kind = operation.kind,
                .cause = operation.motive.cause,
                .source = index_of(operation.from),
                .destination = index_of(operation.to)});
}

void OperationRecorder::record_release(BlockIndex block, PageRun run) {
  decisions_.add({.time_ns = now_ns(), .block = block, .run = run, .cause = MoveCause::release});
}

void OperationRecorder::record_thrashing(PageSpan pages, Processor to, ProcessorMask processors,
                                         std::uint64_t now_ns) const {
  if (!is_recorded(EventKind::thrashing)) return;
  const auto address = address_of(pages.first);
  if (!address) return;
  record_event({.time_ns = now_ns,
                .address = *address,
                .bytes = pages.bytes(),
                .kind = EventKind::thrashing,
                .destination = impl::index_of(to),
                .processors = static_cast<std::uint16_t>(processors)});
}

}  // namespace wherry::impl
