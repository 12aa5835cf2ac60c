// Whether events are recorded at the moment, which, and for whom. There is one recorder in a
// process, since everything in it may have something to record, also signal handlers: the flag and
// the rings are global.
//
// Who has something to record asks is_recorded(kind) first, one relaxed load, and only then
// computes an event:
//
//     if (is_recorded(EventKind::migration)) record_event({.time_ns = ..., .kind =
//     EventKind::migration});
//
// Events are recorded by the process that called cuInit alone. Device processes and children of
// fork() run none of the code that records; a child of fork() also calls forget_recording().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "trace/event.h"

namespace wherry::impl {

// The kinds that are recorded; 0: nothing is. Relaxed: who sees it late records a little longer, or
// later.
inline constinit std::atomic<EventKinds> recorded_kinds{0};

inline bool is_recorded(EventKind kind) {
  return (recorded_kinds.load(std::memory_order_relaxed) & bit_of(kind)) != 0;
}

// Any thread, and signal handlers. Where nothing is recorded any more, or the ring is full, the
// event is lost; the latter is counted.
void record_event(const EventRecord& event) noexcept;

// Who reads what is recorded: one of them at a time, since an event that one has read is gone for
// the other.
enum class EventReader {
  program,  // wherryEventsRead
  trace,    // a TraceWriter
};

// From now on, until stop_recording(). `capacity`: how many events each ring (event_rings.h) holds,
// rounded up to a power of two, at most EventRings::capacity_max. False: recording is on already.
// Throws std::system_error. Any thread, as the following.
[[nodiscard]] bool start_recording(EventReader reader, EventKinds kinds, std::size_t capacity);
// What has been recorded can still be taken. False: this reader has not started it.
bool stop_recording(EventReader reader);
// Takes events out, as many as there are and fit; of one thread in the order in which they were
// recorded. Nothing: the reader has not started recording, or another one has since.
[[nodiscard]] bool take_events(EventReader reader, std::span<EventRecord> events,
                               std::size_t& taken);
// Whether recording is on, for this reader.
[[nodiscard]] bool is_recording_for(EventReader reader);
// How many events of this kind were dropped since recording was started last.
std::uint64_t dropped_events(EventKind kind);

// In a child of fork(), which has no rings. Only what a signal handler may do.
void forget_recording();

}  // namespace wherry::impl
