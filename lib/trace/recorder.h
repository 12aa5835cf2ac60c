// Controls whether events are recorded, which kinds, and for which reader. There is one recorder
// per process, because every part of the process may record events, including signal handlers. The
// flag and the rings are therefore global.
//
// A caller first asks is_recorded(kind), one relaxed load, and builds the event only if that is
// true:
//
//     if (is_recorded(EventKind::migration))
//       record_event({.time_ns = ..., .kind = EventKind::migration});
//
// Only the process that called cuInit records events. Device processes and children of fork() run
// no code that records; a child of fork() also calls forget_recording().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "trace/event.h"

namespace wherry::impl {

// The kinds that are recorded; 0: none. Relaxed: a thread that sees a change late starts or stops
// recording a little later.
inline constinit std::atomic<EventKinds> recorded_kinds{0};

inline bool is_recorded(EventKind kind) {
  return (recorded_kinds.load(std::memory_order_relaxed) & bit_of(kind)) != 0;
}

// Any thread and signal handlers may call. The event is lost if recording has stopped or the ring
// is full; in the second case it is counted.
void record_event(const TraceEvent& event) noexcept;

// The reader of the events. There is one reader at a time, because reading an event removes it.
enum class EventReader {
  program,  // wherryReadEvents
  trace,    // a TraceWriter
};

// Records from now on, until stop_recording(). `capacity`: how many events each ring
// (event_rings.h) holds, rounded up to a power of two, at most EventRings::capacity_max. Returns
// false if recording is already on. Throws std::system_error. Any thread may call this and the
// functions below.
[[nodiscard]] bool start_recording(EventReader reader, EventKinds kinds, std::size_t capacity);
// Stops recording. Events recorded so far can still be taken. Returns false if this reader has not
// started recording.
bool stop_recording(EventReader reader);
// Removes as many events as are available and fit; the events of each thread are in the order in
// which it recorded them. Returns false if this reader has not started recording, or if another
// reader has started since.
[[nodiscard]] bool take_events(EventReader reader, std::span<TraceEvent> events,
                               std::size_t& taken);
// Returns whether recording is on for this reader.
[[nodiscard]] bool is_recording_for(EventReader reader);
// How many events of this kind have been dropped since recording last started.
std::uint64_t dropped_events(EventKind kind);

// Call in a child of fork(), where the rings are not valid. Async-signal-safe.
void forget_recording();

}  // namespace wherry::impl
