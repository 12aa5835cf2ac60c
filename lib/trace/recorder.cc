#include "trace/recorder.h"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <optional>

#include "base/lock.h"
#include "trace/event_rings.h"

namespace wherry::impl {
namespace {

// A thread may still write to the rings after recording has stopped. Rings are therefore never
// freed, and are reused for the next recording of the same capacity.
std::atomic<EventRings*> current_rings = nullptr;

struct Recorder {
  Mutex lock{LockOrder::recorder};
  // Index: log2 of the capacity.
  std::array<std::unique_ptr<EventRings>, std::bit_width(EventRings::capacity_max)> rings
      GUARDED_BY(lock);
  // The reader of the last recording that started; nullopt before the first.
  std::optional<EventReader> reader GUARDED_BY(lock);
  bool on GUARDED_BY(lock) = false;
  std::array<std::uint64_t, event_kinds> dropped_before GUARDED_BY(lock) = {};
};

// Never destroyed: threads record until the process ends.
Recorder& recorder() {
  static Recorder& the_recorder = *new Recorder;
  return the_recorder;
}

void discard(EventRings& rings) {
  std::array<TraceEvent, 64> events;
  while (rings.take(events) != 0) continue;
}

}  // namespace

void record_event(const TraceEvent& event) noexcept {
  // Pairs with the release in start_recording().
  if (EventRings* const rings = current_rings.load(std::memory_order_acquire)) rings->put(event);
}

bool start_recording(EventReader reader, EventKinds kinds, std::size_t capacity) {
  Recorder& the = recorder();
  const LockGuard guard(the.lock);
  if (the.on) return false;
  const std::size_t rounded =
      std::bit_ceil(std::clamp<std::size_t>(capacity, 1, EventRings::capacity_max));
  auto& rings = the.rings[static_cast<std::size_t>(std::countr_zero(rounded))];
  if (!rings) rings = std::make_unique<EventRings>(rounded);
  discard(*rings);
  for (unsigned i = 0; i < event_kinds; ++i)
    the.dropped_before[i] = rings->dropped(static_cast<EventKind>(i));
  the.reader = reader;
  the.on = true;
  current_rings.store(rings.get(), std::memory_order_release);
  recorded_kinds.store(kinds & all_event_kinds, std::memory_order_relaxed);
  return true;
}

bool stop_recording(EventReader reader) {
  Recorder& the = recorder();
  const LockGuard guard(the.lock);
  if (!the.on || the.reader != reader) return false;
  recorded_kinds.store(0, std::memory_order_relaxed);
  the.on = false;
  return true;
}

bool take_events(EventReader reader, std::span<TraceEvent> events, std::size_t& taken) {
  Recorder& the = recorder();
  const LockGuard guard(the.lock);
  if (the.reader != reader) return false;
  taken = current_rings.load(std::memory_order_relaxed)->take(events);
  return true;
}

bool is_recording_for(EventReader reader) {
  Recorder& the = recorder();
  const LockGuard guard(the.lock);
  return the.on && the.reader == reader;
}

std::uint64_t dropped_events(EventKind kind) {
  Recorder& the = recorder();
  const LockGuard guard(the.lock);
  const EventRings* const rings = current_rings.load(std::memory_order_relaxed);
  return rings == nullptr ? 0
                          : rings->dropped(kind) - the.dropped_before[static_cast<unsigned>(kind)];
}

void forget_recording() {
  recorded_kinds.store(0, std::memory_order_relaxed);
  current_rings.store(nullptr, std::memory_order_relaxed);
}

}  // namespace wherry::impl
